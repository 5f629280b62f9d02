/* What the kernels of `yamabiko bench` share: their arguments, a clock, and the lines they print.
 *
 * A kernel is started as
 *
 *   KERNEL MILLISECONDS WHAT HOW VALUE...
 *
 * (time to spend on each value; words that choose what is measured and how, "-" for none) and prints
 *
 *   library NAME           once, first: what it runs on
 *   point VALUE FIGURE     for each VALUE, in that order; FIGURE is - where there is none to be had
 *   end
 *
 * from one process, and nothing else: whatever it has to say besides goes to standard error. The clock
 * is the system's, so that no library measures itself. */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BENCH_BATCHES = 25, BENCH_FEWEST = 5, BENCH_MOST_ROUNDS = 1 << 20 };

static struct {
    double seconds; /* to spend on each value */
    const char *what, *how;
    char **values;
    int count; /* of values */
} bench;

/* Both headers are used by kernels that need only part of them. */
#define BENCH_FUNCTION static __attribute__((unused))

BENCH_FUNCTION double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

BENCH_FUNCTION int bench_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

BENCH_FUNCTION double bench_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof values[0], bench_ascending);
    return values[count / 2];
}

/* Reads the arguments; returns 0 if they are not those of a kernel. */
BENCH_FUNCTION int bench_arguments(int argc, char **argv) {
    if (argc < 5)
        return 0;
    bench.seconds = 1e-3 * atof(argv[1]);
    bench.what = argv[2];
    bench.how = argv[3];
    bench.values = argv + 4;
    bench.count = argc - 4;
    return bench.seconds > 0;
}

BENCH_FUNCTION size_t bench_value(int i) {
    return (size_t)strtoull(bench.values[i], NULL, 10);
}

BENCH_FUNCTION int bench_is(const char *what) {
    return !strcmp(bench.what, what);
}

/* The first line of a name. */
BENCH_FUNCTION void bench_library(const char *name) {
    printf("library %.*s\n", (int)strcspn(name, "\n"), name);
}

BENCH_FUNCTION void bench_point(int i, double figure) {
    if (figure != figure)
        printf("point %s -\n", bench.values[i]);
    else
        printf("point %s %.9g\n", bench.values[i], figure);
}

BENCH_FUNCTION void bench_end(void) {
    puts("end");
}

/* How many rounds make a batch, and how many batches there is time for, if a round takes `each` seconds. */
BENCH_FUNCTION void bench_plan(double each, int *rounds, int *batches) {
    double fits = bench.seconds / BENCH_BATCHES / each, times;
    *rounds = fits < 1 ? 1 : fits > BENCH_MOST_ROUNDS ? BENCH_MOST_ROUNDS : (int)fits;
    times = bench.seconds / (each * *rounds);
    *batches = times < BENCH_FEWEST ? BENCH_FEWEST : times > BENCH_BATCHES ? BENCH_BATCHES : (int)times;
}

#endif
