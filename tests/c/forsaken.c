/* All others of a communicator are killed (mpiexec -disable-auto-cleanup): a receive or probe from any source ends with
 * MPI_ERR_PROC_ABORTED, pending or started later. What came before counts, and what the process sends to itself still does.
 *
 * Rank 0 survives. Argument "multiple": with MPI_THREAD_MULTIPLE another thread may send, so a receive stays.
 */
#include "check.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static MPI_Comm own, pair;

static void fails(int code)
{
    FAILS(code, MPI_ERR_PROC_ABORTED);
}

/* Each way to wait or test for a pending receive. */
static void pending(void)
{
    int got, flag, index, count, indices[2];
    MPI_Request r[2];
    MPI_Status s[2];
    for (int way = 0; way < 9; way++) {
        int code = MPI_SUCCESS;
        OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[0]));
        r[1] = MPI_REQUEST_NULL;
        switch (way) {
        case 0: code = MPI_Wait(&r[0], &s[0]); break;
        case 1: code = MPI_Waitany(2, r, &index, s); SAME(index, 0); break;
        case 2: code = MPI_Test(&r[0], &flag, s); SAME(flag, 1); break;
        case 3: code = MPI_Testany(2, r, &index, &flag, s); SAME(flag, 1); SAME(index, 0); break;
        case 4: code = MPI_Waitall(2, r, s); break;
        case 5: code = MPI_Testall(2, r, &flag, s); SAME(flag, 1); break;
        case 6: code = MPI_Waitsome(2, r, &count, indices, s); SAME(count, 1); break;
        case 7: code = MPI_Testsome(2, r, &count, indices, s); SAME(count, 1); break;
        case 8:
            OK(MPI_Request_get_status(r[0], &flag, s));
            SAME(flag, 1);
            code = MPI_Wait(&r[0], s);
        }
        if (way >= 4 && way < 8) {
            FAILS(code, MPI_ERR_IN_STATUS);
            code = s[0].MPI_ERROR;
        }
        fails(code);
        CHECK(r[0] == MPI_REQUEST_NULL);
    }
}

static void survive(MPI_Request early)
{
    int got = -1, one = 1, flag;
    MPI_Request r;
    MPI_Status s;
    MPI_Message m;
    /* It was posted before anybody died, and something came for it. */
    OK(MPI_Wait(&early, &s));
    SAME(s.MPI_SOURCE, 1);
    fails(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &s));
    fails(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, pair, MPI_STATUS_IGNORE));
    fails(MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &s));
    fails(MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &m, &s));
    fails(MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &s));
    fails(MPI_Improbe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &m, &s));
    fails(MPI_Sendrecv(&one, 1, MPI_INT, MPI_PROC_NULL, 5, &got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &s));
    pending();
    OK(MPI_Recv_init(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &r));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Start(&r));
        fails(MPI_Wait(&r, &s));
    }
    OK(MPI_Request_free(&r));
    /* To itself. */
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &r));
    OK(MPI_Send(&one, 1, MPI_INT, 0, 6, MPI_COMM_WORLD));
    OK(MPI_Wait(&r, &s));
    SAME(got, 1);
    OK(MPI_Send(&one, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    OK(MPI_Probe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &s));
    OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &s));
    /* Nobody is missing here. */
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, own, &r));
    OK(MPI_Test(&r, &flag, &s));
    SAME(flag, 0);
    OK(MPI_Send(&one, 1, MPI_INT, 0, 6, own));
    OK(MPI_Wait(&r, &s));
}

/* Nothing ends that another thread might satisfy. */
static void survive_threaded(MPI_Request early)
{
    int got = -1, one = 1, flag;
    MPI_Request r;
    OK(MPI_Wait(&early, MPI_STATUS_IGNORE));
    for (int rank = 1; rank < t_size; rank++)
        fails(MPI_Recv(&got, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &r));
    OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
    OK(MPI_Send(&one, 1, MPI_INT, 0, 6, MPI_COMM_WORLD));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    int threaded = argc > 1 && !strcmp(argv[1], "multiple"), provided;
    OK(MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank < 2 ? 0 : MPI_UNDEFINED, 0, &pair));
    int first = -1;
    MPI_Request early;
    if (t_rank == 0)
        OK(MPI_Irecv(&first, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &early));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank > 0) {
        /* One after the other, while rank 0 is waiting. */
        usleep(200000 * t_rank);
        if (t_rank == 1)
            OK(MPI_Send(&t_rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        kill(getpid(), SIGKILL);
    }
    (threaded ? survive_threaded : survive)(early);
    OK(MPI_Comm_free(&pair));
    OK(MPI_Comm_free(&own));
    printf("ok forsaken\n");
    OK(MPI_Finalize());
    return 0;
}
