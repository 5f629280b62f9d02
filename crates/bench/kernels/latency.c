/* Ping-pong of MPI_Send and MPI_Recv between ranks 0 and 1: microseconds one way, by bytes. */
#include "bench_mpi.h"

static char *out, *in;
static int bytes;

static double ping_pong(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        if (bench_rank == 0) {
            MPI_Send(out, bytes, MPI_CHAR, 1, BENCH_TAG, BENCH_WORLD);
            MPI_Recv(in, bytes, MPI_CHAR, 1, BENCH_TAG, BENCH_WORLD, MPI_STATUS_IGNORE);
        } else if (bench_rank == 1) {
            MPI_Recv(in, bytes, MPI_CHAR, 0, BENCH_TAG, BENCH_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_CHAR, 0, BENCH_TAG, BENCH_WORLD);
        }
    }
    return bench_rank == 0 ? bench_now() - start : 0;
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv, 2);
    for (int i = 0; i < bench.count; i++) {
        bytes = (int)bench_value(i);
        out = bench_memory((size_t)bytes);
        in = bench_memory((size_t)bytes);
        bench_figure(i, 1e6 * bench_measure(ping_pong) / 2);
        free(out);
        free(in);
    }
    bench_finish();
    return 0;
}
