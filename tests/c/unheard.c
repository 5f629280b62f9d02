/* A rank is killed while the others go on (mpiexec -disable-auto-cleanup): short sends to it fail soon, although they would fit the
 * memory that it shared, and although their sender does nothing but send. With an argument it gives broadcasts, which don't wait,
 * or persistent ones.
 */
#include "check.h"
#include <signal.h>
#include <unistd.h>

/* Sends, and milliseconds between them: fewer than fit, and time enough for the launcher. */
enum { VICTIM = 1, MOST = 50, PAUSE_MS = 100 };

static int broadcasts, persistent;
static MPI_Comm both;
static MPI_Request kept;

static int give(int *word)
{
    MPI_Request request;
    int code;
    if (!broadcasts)
        return MPI_Send(word, 1, MPI_INT, VICTIM, 2, both);
    if (persistent)
        request = kept;
    code = persistent ? MPI_Start(&request) : MPI_Ibcast(word, 1, MPI_INT, 0, both, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    broadcasts = argc > 1;
    persistent = broadcasts && strcmp(argv[1], "persistent") == 0;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank <= VICTIM, 0, &both));
    OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
    int word = 7;
    if (persistent)
        OK(MPI_Bcast_init(&word, 1, MPI_INT, 0, both, MPI_INFO_NULL, &kept));
    /* Both know each other, and nothing is under way. */
    if (t_rank == 0)
        OK(MPI_Send(&word, 1, MPI_INT, VICTIM, 1, both));
    if (t_rank == VICTIM) {
        OK(MPI_Recv(&word, 1, MPI_INT, 0, 1, both, MPI_STATUS_IGNORE));
        kill(getpid(), SIGKILL);
    }
    if (t_rank == 0) {
        int sent = 0, code = MPI_SUCCESS;
        while (sent < MOST && code == MPI_SUCCESS) {
            t_sleep_ms(PAUSE_MS);
            code = give(&word);
            sent += code == MPI_SUCCESS;
        }
        FAILS(code, MPI_ERR_PROC_ABORTED);
        FAILS(give(&word), MPI_ERR_PROC_ABORTED);
        if (persistent)
            OK(MPI_Request_free(&kept));
        printf("ok unheard\n");
    }
    OK(MPI_Finalize());
    return 0;
}
