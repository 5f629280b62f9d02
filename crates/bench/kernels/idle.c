/* What a rank that waits in MPI_Recv takes of a processor, in per cent, all its threads together, by the
 * milliseconds it waits. */
#include "bench_mpi.h"

static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_milliseconds(size_t milliseconds) {
    struct timespec t = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&t, &t)) {
    }
}

static double wait_for_message(void) {
    char word;
    double wall = bench_now(), cpu = used();
    MPI_Recv(&word, 1, MPI_CHAR, 1, BENCH_TAG, BENCH_WORLD, MPI_STATUS_IGNORE);
    cpu = used() - cpu;
    return 100 * cpu / (bench_now() - wall);
}

int main(int argc, char **argv) {
    char word = 0;
    bench_init(&argc, &argv, 2);
    for (int i = 0; i < bench.count; i++) {
        MPI_Barrier(BENCH_WORLD);
        if (bench_rank == 0) {
            bench_figure(i, wait_for_message());
        } else if (bench_rank == 1) {
            pause_milliseconds(bench_value(i));
            MPI_Send(&word, 1, MPI_CHAR, 0, BENCH_TAG, BENCH_WORLD);
        }
    }
    bench_finish();
    return 0;
}
