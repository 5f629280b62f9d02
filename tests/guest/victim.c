/* Mixed traffic for the number of milliseconds given as the argument, for ever if it is 0: what a rank is
 * doing when it is killed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BIG = 200000 };

static char out[BIG], in[BIG];

static void round_of(int number, int rank, int size)
{
    static const int sizes[] = {0, 8, 900, 30000, BIG};
    int bytes = sizes[number % 5], sum = 0;
    MPI_Request requests[2];
    MPI_Irecv(in, BIG, MPI_BYTE, MPI_ANY_SOURCE, number % 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, (rank + 1) % size, number % 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (number % 3 == 0)
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (number % 4 == 0)
        MPI_Bcast(out, bytes, MPI_BYTE, number % size, MPI_COMM_WORLD);
    if (number % 5 == 0) { /* rank 0 alone is late, the others sleep */
        volatile double x = 1;
        for (int i = 0; rank == 0 && i < 100000; i++)
            x = x * 1.0000001;
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size, go = 1;
    MPI_Init(&argc, &argv);
    double work = argc > 1 ? atof(argv[1]) / 1000 : 0, until = MPI_Wtime() + work;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(out, rank, BIG);
    for (int i = 0; go; i++) {
        round_of(i, rank, size);
        if (work > 0 && i % 10 == 0) {
            go = MPI_Wtime() < until;
            MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
