/* A process that was forked from a rank is told so by whatever it calls, and changes nothing for the rank: here by the calls that are the
 * shortest, after the rank has used them. With the argument "multiple" threads are asked for, of which there is one, with "unwiped" too, and the system
 * does not empty memory in children.
 */
#include "check.h"
#include "refuse.h"
#include <sys/wait.h>
#include <unistd.h>

enum { TAG = 3, EARLY = 4, ROUNDS = 40, CALLS = 8, RETURNED = 77 };

static int to, from;
static MPI_Request pending, sent;

/* Calls what has this number, which doesn't come back. */
static void child(int call)
{
    int value = -1, flag;
    MPI_Request request;
    switch (call) {
    case 0: MPI_Send(&value, 1, MPI_INT, to, TAG, MPI_COMM_WORLD); break;
    case 1: MPI_Isend(&value, 1, MPI_INT, to, TAG, MPI_COMM_WORLD, &request); break;
    case 2: MPI_Recv(&value, 1, MPI_INT, from, EARLY, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
    case 3: MPI_Recv(&value, 1, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
    case 4: MPI_Irecv(&value, 1, MPI_INT, from, EARLY, MPI_COMM_WORLD, &request); break;
    case 5: MPI_Wait(&pending, MPI_STATUS_IGNORE); break;
    case 6: MPI_Wait(&sent, MPI_STATUS_IGNORE); break;
    case 7: MPI_Test(&pending, &flag, MPI_STATUS_IGNORE); break;
    }
    _exit(RETURNED);
}

/* Everybody sends to the next and receives from the one before. */
static void exchange(int value)
{
    int got = -1;
    MPI_Request receive, send;
    OK(MPI_Irecv(&got, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &receive));
    OK(MPI_Isend(&value, 1, MPI_INT, to, TAG, MPI_COMM_WORLD, &send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    CHECK(got == value);
    OK(MPI_Send(&value, 1, MPI_INT, to, TAG, MPI_COMM_WORLD));
    OK(MPI_Recv(&got, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got == value);
}

int main(int argc, char **argv)
{
    int level = argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided;
    int early = 5, late = 6, got_early = -1, got_late = -1;
    if (argc > 1 && strcmp(argv[1], "unwiped") == 0)
        refuse_calls(SYS_madvise, -1u);
    OK(MPI_Init_thread(&argc, &argv, level, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    CHECK(provided >= level);
    to = (t_rank + 1) % t_size;
    from = (t_rank + t_size - 1) % t_size;
    for (int i = 0; i < ROUNDS; i++)
        exchange(i);

    OK(MPI_Irecv(&got_late, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &pending));
    OK(MPI_Isend(&early, 1, MPI_INT, to, EARLY, MPI_COMM_WORLD, &sent));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int call = 0; call < CALLS; call++) {
        int status = 0;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(call);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == RETURNED));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&late, 1, MPI_INT, to, TAG, MPI_COMM_WORLD));
    OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&got_early, 1, MPI_INT, from, EARLY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got_early == early && got_late == late);
    for (int i = 0; i < ROUNDS; i++)
        exchange(i);
    return t_done("forked");
}
