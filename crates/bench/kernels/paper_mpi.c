/* The experiments of FMPL's paper for which MPI has no kernel besides: paper_fmpl.c says what WHAT means; HOW means
 * nothing. */
#include "paper.h"
#include <mpi.h>

static char *out, *in;
static int bytes, depth;
static double clock_cost;
static MPI_Request *requests;

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void meet(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

static void greatest(double *numbers, int count) {
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void post(int tag) {
    MPI_Irecv(in + tag * 4, 4, MPI_CHAR, !me, tag, MPI_COMM_WORLD, &requests[tag]);
}

static void take(int tag) {
    MPI_Wait(&requests[tag], MPI_STATUS_IGNORE);
}

static void send(int tag) {
    MPI_Send(out, 4, MPI_CHAR, !me, tag, MPI_COMM_WORLD);
}

/* As in paper_fmpl.c. */
static double table2(int rounds) {
    double seconds = 0, start;
    for (int i = 0; i < rounds; i++) {
        meet();
        start = bench_now();
        for (int n = 0; n < depth; n++)
            post(n);
        seconds += bench_is("gap") ? bench_now() - start - clock_cost : 0;
        post(depth);
        meet();
        if (me == 0) {
            send(depth);
            take(depth);
        } else {
            take(depth);
            send(depth);
        }
        start = bench_now();
        for (int n = 0; n < depth; n++) {
            if (me == 1)
                take(n);
            send(n);
            if (me == 0)
                take(n);
        }
        seconds += bench_is("gap") ? 0 : bench_now() - start - clock_cost;
    }
    return me == 0 ? paper_told(seconds, rounds) : 0;
}

static double barrier(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        meet();
    return bench_now() - start;
}

static double bcast(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Bcast(out, bytes, MPI_CHAR, paper_root(i), MPI_COMM_WORLD);
    paper_turned(rounds);
    return bench_now() - start;
}

static double reduce(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Reduce(out, in, bytes / PAPER_ELEMENT, MPI_DOUBLE, MPI_SUM, paper_root(i), MPI_COMM_WORLD);
    paper_turned(rounds);
    return bench_now() - start;
}

static double figure(void) {
    if (bench_is("gap"))
        return 1e6 * paper_measure(table2) / depth;
    if (bench_is("posted"))
        return 1e6 * paper_measure(table2) / depth / 2;
    if (bench_is("barrier"))
        return 1e6 * paper_measure(barrier);
    if (bench_is("reduce"))
        return 1e6 * paper_measure(reduce);
    if (bench_is("bcast"))
        return 1e6 * paper_measure(bcast);
    return 1e-9 * bytes / paper_measure(bcast);
}

int main(int argc, char **argv) {
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, by_depth;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(name, &length);
    if (!bench_arguments(argc, argv))
        fail("arguments: MILLISECONDS WHAT HOW VALUE...");
    by_depth = bench_is("gap") || bench_is("posted");
    if (by_depth && ranks != 2)
        fail("wants 2 ranks");
    clock_cost = paper_clock();
    if (me == 0)
        bench_library(name);
    for (int i = 0; i < bench.count; i++) {
        depth = by_depth ? (int)bench_value(i) : 0;
        bytes = by_depth ? 4 : bench_is("bcast-bandwidth") ? (int)bench_value(i) : PAPER_ARRAY;
        out = paper_memory((size_t)bytes);
        in = paper_memory((size_t)bytes * (size_t)(depth + 1));
        requests = paper_memory((size_t)(depth + 1) * sizeof *requests);
        paper_figure(i, figure());
        paper_free(out);
        paper_free(in);
        paper_free(requests);
    }
    if (me == 0)
        bench_end();
    MPI_Finalize();
    return 0;
}
