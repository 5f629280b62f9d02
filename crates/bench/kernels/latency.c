/* Ping-pong between ranks 0 and 1: microseconds one way, by bytes. HOW: ahead (a few receives are always posted before
 * their messages, MPI_Irecv and MPI_Wait beside MPI_Send, each with a tag of its own), or anything else: MPI_Send and
 * MPI_Recv; multiple: other threads might call MPI too, though there are none. */
#include "bench_mpi.h"

enum { AHEAD = 8 };

static char *out, *in;
static int bytes;
static MPI_Request requests[AHEAD];

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

static void post(int tag) {
    MPI_Irecv(in + (size_t)tag * (size_t)bytes, bytes, MPI_CHAR, !bench_rank, tag, BENCH_WORLD, &requests[tag]);
}

static void take(int tag) {
    MPI_Wait(&requests[tag], MPI_STATUS_IGNORE);
}

/* As in paper_fmpl.c. */
static double ahead(int rounds) {
    double start;
    if (bench_rank > 1)
        return 0;
    for (int i = 0; i < AHEAD && i < rounds; i++)
        post(i);
    start = bench_now();
    for (int i = 0; i < rounds; i++) {
        int again = bench_rank == 0 ? i - 1 : i;
        if (bench_rank == 1)
            take(i % AHEAD);
        MPI_Send(out, bytes, MPI_CHAR, !bench_rank, i % AHEAD, BENCH_WORLD);
        if (again >= 0 && again + AHEAD < rounds)
            post(again % AHEAD);
        if (bench_rank == 0)
            take(i % AHEAD);
    }
    return bench_rank == 0 ? bench_now() - start : 0;
}

int main(int argc, char **argv) {
    int multiple = argc > 3 && !strcmp(argv[3], "multiple");
    bench_init_thread(&argc, &argv, 2, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    for (int i = 0; i < bench.count; i++) {
        bytes = (int)bench_value(i);
        out = bench_memory((size_t)bytes);
        in = bench_memory((size_t)bytes * AHEAD);
        bench_figure(i, 1e6 * bench_measure(strcmp(bench.how, "ahead") ? ping_pong : ahead) / 2);
        free(out);
        free(in);
    }
    bench_finish();
    return 0;
}
