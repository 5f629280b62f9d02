/* What rank 0 gets through to rank 1, by bytes of a message:
 *
 *   stream      gigabytes a second, one way, up to WINDOW messages on their way at once
 *   rate        the same as millions of messages a second
 *   ping-pong   gigabytes a second, one message at a time, there and back
 *
 * in buffers from the heap (HOW is not alloc_mem) or from MPI_Alloc_mem. */
#include "bench_mpi.h"

enum { WINDOW = 64, FEWEST = 4 };

/* Each message of a window has a buffer of its own at the receiver, as the standard wants it; together
 * they stay below this, so that the largest messages have a smaller window. */
static const size_t IN_FLIGHT = (size_t)64 << 20;

static char *out, *in;
static int bytes, window;
static MPI_Request requests[WINDOW];

static double stream(int rounds) {
    double start = bench_now();
    char word = 0;
    for (int i = 0; i < rounds; i++) {
        if (bench_rank == 0) {
            for (int w = 0; w < window; w++)
                MPI_Isend(out, bytes, MPI_CHAR, 1, BENCH_TAG, BENCH_WORLD, &requests[w]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(&word, 1, MPI_CHAR, 1, BENCH_TAG, BENCH_WORLD, MPI_STATUS_IGNORE);
        } else if (bench_rank == 1) {
            for (int w = 0; w < window; w++)
                MPI_Irecv(in + (size_t)w * (size_t)bytes, bytes, MPI_CHAR, 0, BENCH_TAG, BENCH_WORLD,
                          &requests[w]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Send(&word, 1, MPI_CHAR, 0, BENCH_TAG, BENCH_WORLD);
        }
    }
    return bench_rank == 0 ? bench_now() - start : 0;
}

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

static char *memory(size_t size) {
    char *got;
    if (strcmp(bench.how, "alloc_mem"))
        return bench_memory(size);
    MPI_Alloc_mem((MPI_Aint)size + 1, MPI_INFO_NULL, &got);
    memset(got, 1, size + 1);
    return got;
}

static void release(char *got) {
    if (strcmp(bench.how, "alloc_mem"))
        free(got);
    else
        MPI_Free_mem(got);
}

static double measure(void) {
    double seconds;
    if (bench_is("ping-pong"))
        return 2e-9 * bytes / bench_measure(ping_pong);
    seconds = bench_measure(stream);
    return bench_is("rate") ? 1e-6 * window / seconds : 1e-9 * bytes * window / seconds;
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv, 2);
    for (int i = 0; i < bench.count; i++) {
        size_t size = bench_value(i), fit = IN_FLIGHT / (size ? size : 1);
        bytes = (int)size;
        window = fit > WINDOW ? WINDOW : fit < FEWEST ? FEWEST : (int)fit;
        out = memory(size);
        in = memory(bench_is("ping-pong") ? size : size * (size_t)window);
        bench_figure(i, measure());
        release(out);
        release(in);
    }
    bench_finish();
    return 0;
}
