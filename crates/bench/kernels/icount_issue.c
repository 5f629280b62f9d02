/* Starts a persistent 8-byte MPI_Allreduce again and again, for counting the instructions of a start up to where the kernel gets it:
 * `icount_issue ROUNDS`, on each rank below `icount_steps`, which counts from the break point instruction on.
 *
 * All ranks are through with one collective, and what came of it, before any starts the next. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM = 8, LOOKS = 4 };

static void complete(MPI_Request *request)
{
    int flag;
    MPI_Wait(request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Whatever the kernel still tells of it is taken here. */
    for (int i = 0; i < LOOKS; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    long in, out;
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce_init(&in, &out, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < WARM + rounds; i++) {
        in = rank + i, out = -1;
        if (i >= WARM)
            __asm__ volatile("int3");
        MPI_Start(&request);
        complete(&request);
        if (out != (long)size * (size - 1) / 2 + (long)size * i) {
            fprintf(stderr, "rank %d, round %d: the sum is %ld\n", rank, i, out);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    raise(SIGCONT);
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
