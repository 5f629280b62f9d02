/* One way between ranks 0 and 1, in microseconds, for each size named: pingpong SIZE...  One line a size:
 * "SIZE MICROSECONDS", the median of blocks.  With any MPI.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 15 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int a = 1; a < argc; a++) {
        int n = atoi(argv[a]), rounds = n > 100000 ? 60 : 600;
        char *buffer = calloc(1, n > 0 ? (size_t)n : 1);
        double block[BLOCKS];
        for (int b = -1; b < BLOCKS; b++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            for (int i = 0; rank < 2 && i < rounds; i++)
                for (int turn = 0; turn < 2; turn++)
                    if (rank == turn)
                        MPI_Send(buffer, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
                    else
                        MPI_Recv(buffer, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (b >= 0) /* The first warms up. */
                block[b] = (MPI_Wtime() - start) / rounds / 2 * 1e6;
        }
        qsort(block, BLOCKS, sizeof block[0], by_value);
        if (rank == 0)
            printf("%d %.3f\n", n, block[BLOCKS / 2]);
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
