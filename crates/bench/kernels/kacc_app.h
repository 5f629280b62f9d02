/* What the applications among KACC's experiments share: how long one takes that waits for its collective operations,
 * and how long if it computes meanwhile. The paper announces such (HPL is one) and has none.
 *
 * An application defines the functions declared here and calls `app_main`. By WHAT, and by the size of its problem:
 *
 *   time        milliseconds until the slowest rank is done, HOW being its way
 *   speedup     the time of its first way, times that of the way HOW, in turns
 *   iterations  how many it took, where there are any
 *
 * Each solution is checked, outside of what is measured: a wrong one ends all. */
#ifndef KACC_APP_H
#define KACC_APP_H

#include "bench_mpi.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { APP_SAMPLES_FEWEST = 3, APP_SAMPLES_MOST = 25 };

/* Numbers at once, as many as each processor of 64 bits has registers for: more would lie in memory. They may begin at
 * any number. */
enum { LANES = 2 };
typedef double lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

/* Those that begin there. */
#define LANES_AT(numbers) (*(lanes *)(numbers))

/* The least multiple of LANES that is not less. */
BENCH_FUNCTION int lanes_full(int count) {
    return (count + LANES - 1) / LANES * LANES;
}

/* Makes the problem of a size, and frees it. */
static void app_make(size_t size);
static void app_free(void);
/* Solves it in a way (by number: 0 blocks), from the beginning, when all have come; seconds that this rank took. */
static double app_solve(int way);
/* Iterations that the last solution took; not a number where there are none. */
static double app_iterations(void);

/* A number between -1/2 and 1/2 that looks random, the same each time. */
BENCH_FUNCTION double app_random(uint64_t index) {
    uint64_t bits = (index + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return (double)((bits ^ bits >> 31) >> 11) * 0x1p-53 - 0.5;
}

/* Seconds that the slowest rank took. */
static double app_seconds(int way) {
    return bench_slowest(app_solve(way));
}

/* How many samples there is time for, if each takes so many seconds. */
static int app_samples(double each) {
    double fits = bench.seconds / each;
    return fits < APP_SAMPLES_FEWEST ? APP_SAMPLES_FEWEST : fits > APP_SAMPLES_MOST ? APP_SAMPLES_MOST : (int)fits;
}

static double app_time(int way) {
    double samples[APP_SAMPLES_MOST];
    /* What happens only once, such as connecting, happens in the first. */
    int count = app_samples(app_seconds(way));
    for (int s = 0; s < count; s++)
        samples[s] = app_seconds(way);
    return bench_median(samples, count);
}

static double app_speedup(int way) {
    double samples[APP_SAMPLES_MOST];
    int count = app_samples(app_seconds(0) + app_seconds(way));
    for (int s = 0; s < count; s++) {
        /* Neither is always first. */
        int second = s % 2 ? 0 : way, first = s % 2 ? way : 0;
        double one = app_seconds(first), other = app_seconds(second);
        samples[s] = first ? other / one : one / other;
    }
    return bench_median(samples, count);
}

static double app_figure(int way) {
    if (bench_is("speedup"))
        return app_speedup(way);
    if (bench_is("time"))
        return 1e3 * app_time(way);
    app_seconds(way);
    return app_iterations();
}

/* The whole program, of an application that has these ways. */
BENCH_FUNCTION int app_main(int argc, char **argv, const char *const *ways, int count) {
    int way = 0;
    bench_init(&argc, &argv, 1);
    while (way < count && strcmp(bench.how, ways[way]))
        way++;
    if (way == count)
        bench_fail("no such way");
    for (int i = 0; i < bench.count; i++) {
        app_make(bench_value(i));
        bench_figure(i, app_figure(way));
        app_free();
    }
    bench_finish();
    return 0;
}

#endif
