/* What a receive costs rank 0 in a long queue, in microseconds, by its depth N; messages of 4 bytes with N
 * tags:
 *
 *   posted       N receives are posted, then N messages come, that for the last receive first
 *   unexpected   N messages are there, then N receives come, that of the last message first */
#include "bench_mpi.h"

static int depth;
static int *data;
static MPI_Request *requests;

/* Only from the moment at which all is posted does the clock run. */
static double posted(int rounds) {
    double seconds = 0;
    for (int i = 0; i < rounds; i++) {
        if (bench_rank == 0) {
            for (int n = 0; n < depth; n++)
                MPI_Irecv(&data[n], 1, MPI_INT, 1, n, BENCH_WORLD, &requests[n]);
            double start = bench_now();
            MPI_Send(NULL, 0, MPI_INT, 1, depth, BENCH_WORLD);
            MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
            seconds += bench_now() - start;
        } else if (bench_rank == 1) {
            MPI_Recv(NULL, 0, MPI_INT, 0, depth, BENCH_WORLD, MPI_STATUS_IGNORE);
            for (int n = depth - 1; n >= 0; n--)
                MPI_Send(&data[n], 1, MPI_INT, 0, n, BENCH_WORLD);
        }
    }
    return seconds;
}

/* The barrier's messages come behind the others. */
static double unexpected(int rounds) {
    double seconds = 0;
    for (int i = 0; i < rounds; i++) {
        for (int n = 0; bench_rank == 1 && n < depth; n++)
            MPI_Isend(&data[n], 1, MPI_INT, 0, n, BENCH_WORLD, &requests[n]);
        MPI_Barrier(BENCH_WORLD);
        if (bench_rank == 0) {
            double start = bench_now();
            for (int n = depth - 1; n >= 0; n--)
                MPI_Recv(&data[n], 1, MPI_INT, 1, n, BENCH_WORLD, MPI_STATUS_IGNORE);
            seconds += bench_now() - start;
        } else if (bench_rank == 1) {
            MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
        }
    }
    return seconds;
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv, 2);
    for (int i = 0; i < bench.count; i++) {
        depth = (int)bench_value(i);
        data = bench_memory((size_t)depth * sizeof *data);
        requests = bench_memory((size_t)depth * sizeof *requests);
        bench_figure(i, 1e6 * bench_measure(bench_is("posted") ? posted : unexpected) / depth);
        free(data);
        free(requests);
    }
    bench_finish();
    return 0;
}
