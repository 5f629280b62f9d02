/* The experiments of FMPL's paper, on BLACS: paper_fmpl.c says what WHAT means; HOW means nothing. Processes are one
 * row, messages one column of doubles. BLACS has no header of its own; these are the functions used. */
#include "paper.h"

void Cblacs_pinfo(int *me, int *processes);
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_barrier(int context, const char *scope);
void Cblacs_gridexit(int context);
void Cblacs_exit(int not_done);
void Cblacs_abort(int context, int error);
void Cdgesd2d(int context, int m, int n, double *a, int lda, int row, int column);
void Cdgerv2d(int context, int m, int n, double *a, int lda, int row, int column);
void Cdgebs2d(int context, const char *scope, const char *top, int m, int n, double *a, int lda);
void Cdgebr2d(int context, const char *scope, const char *top, int m, int n, double *a, int lda, int row, int column);
void Cdgsum2d(int context, const char *scope, const char *top, int m, int n, double *a, int lda, int row, int column);
void Cdgamx2d(int context, const char *scope, const char *top, int m, int n, double *a, int lda, int *rows,
              int *columns, int ldia, int row, int column);

/* Whose BLACS it is. */
#ifndef BENCH_LIBRARY
#define BENCH_LIBRARY "BLACS"
#endif

static double *matrix, *other;
static int context, elements;

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    Cblacs_abort(context, 1);
}

static void meet(void) {
    Cblacs_barrier(context, "A");
}

static void greatest(double *numbers, int count) {
    Cdgamx2d(context, "A", " ", count, 1, numbers, count, NULL, NULL, -1, -1, -1);
}

static double ping_pong(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        if (me == 0) {
            Cdgesd2d(context, elements, 1, matrix, elements, 0, 1);
            Cdgerv2d(context, elements, 1, other, elements, 0, 1);
        } else if (me == 1) {
            Cdgerv2d(context, elements, 1, other, elements, 0, 0);
            Cdgesd2d(context, elements, 1, matrix, elements, 0, 0);
        }
    }
    return me == 0 ? bench_now() - start : 0;
}

static double barrier(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        meet();
    return bench_now() - start;
}

static double bcast(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        if (paper_root(i) == me)
            Cdgebs2d(context, "A", " ", elements, 1, matrix, elements);
        else
            Cdgebr2d(context, "A", " ", elements, 1, matrix, elements, 0, paper_root(i));
    }
    paper_turned(rounds);
    return bench_now() - start;
}

static double reduce(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        Cdgsum2d(context, "A", " ", elements, 1, matrix, elements, 0, paper_root(i));
    paper_turned(rounds);
    return bench_now() - start;
}

static double figure(size_t bytes) {
    if (bench_is("latency"))
        return 1e6 * paper_measure(ping_pong) / 2;
    if (bench_is("ping-pong"))
        return 2e-9 * (double)bytes / paper_measure(ping_pong);
    if (bench_is("barrier"))
        return 1e6 * paper_measure(barrier);
    if (bench_is("reduce"))
        return 1e6 * paper_measure(reduce);
    if (bench_is("bcast"))
        return 1e6 * paper_measure(bcast);
    return 1e-9 * (double)bytes / paper_measure(bcast);
}

int main(int argc, char **argv) {
    int by_ranks;
    Cblacs_pinfo(&me, &ranks);
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "R", 1, ranks);
    if (!bench_arguments(argc, argv))
        fail("arguments: MILLISECONDS WHAT HOW VALUE...");
    if (me == 0)
        bench_library(BENCH_LIBRARY);
    by_ranks = bench_is("barrier") || bench_is("bcast") || bench_is("reduce");
    for (int i = 0; i < bench.count; i++) {
        size_t bytes = by_ranks ? PAPER_ARRAY : bench_value(i);
        if (bytes % PAPER_ELEMENT || bytes == 0)
            fail("BLACS sends doubles here: bytes must be a multiple of 8");
        elements = (int)(bytes / PAPER_ELEMENT);
        matrix = paper_memory(bytes);
        other = paper_memory(bytes);
        paper_figure(i, figure(bytes));
        meet();
        paper_free(matrix);
        paper_free(other);
    }
    if (me == 0)
        bench_end();
    fflush(stdout);
    Cblacs_gridexit(context);
    Cblacs_exit(0);
    return 0;
}
