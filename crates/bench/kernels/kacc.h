/* What the kernels after KACC's paper share: products of matrices, how long one takes, and operations behind which
 * products are computed. `kacc.c` does that on MPI, `kacc_cad.c` on CAD alone; each says here what its operation is
 * and how its ranks tell each other what they found.
 *
 * Time lost, as in the paper, is what was not spent on products: elapsed time less the number of products times the time
 * of one alone, as a share of the elapsed time, on a processor. It has everything in it: calls, interrupts, the kernel's
 * work, helper threads. The time of a product is measured before and after in the same process, in batches much shorter
 * than a time slice, whose median no other process or helper thread lengthens. Where it has changed, what was measured
 * in between is dropped and measured again, some times; then there is no figure. */
#ifndef KACC_H
#define KACC_H

#include "bench.h"
#include <dirent.h>
#include <math.h>
#include <sched.h>

enum { EDGE_MOST = 40, SAMPLES_FEWEST = 3, SAMPLES_MOST = 99, ATTEMPTS = 8, WARM = 2 };

/* Shorter than this, in seconds, a batch of products would measure the clock. */
#define PRODUCTS_LEAST 50e-6
/* So long, in seconds, after all have come, they start: whoever slept has woken by then. */
#define TOGETHER 200e-6
/* By so much the time of a product may change meanwhile. */
#define CHANGE_MOST 0.05

static int kacc_rank, kacc_ranks;

static void kacc_fail(const char *why);
/* What each rank has to say, to all: `bytes` of each, in `all` by rank. Nobody returns before all have called. */
static void kacc_tell(const void *mine, size_t bytes, void *all);
/* Before the operation, outside of what is measured, and after it: puts data in place, and looks at what has come. */
static void operation_prepare(void);
static void operation_check(void);
/* Starts the operation; whether it is over; sleeps until it is. */
static void operation_begin(void);
static int operation_test(void);
BENCH_FUNCTION void operation_wait(void);

/* Until all are here. */
static void kacc_meet(void) {
    char nothing = 0, all[kacc_ranks];
    kacc_tell(&nothing, 1, all);
}

static double left[EDGE_MOST][EDGE_MOST], right[EDGE_MOST][EDGE_MOST], result[EDGE_MOST][EDGE_MOST];
static int edge;

#define MULTIPLY(n)                                                                                                    \
    for (int i = 0; i < (n); i++)                                                                                      \
        for (int j = 0; j < (n); j++) {                                                                                \
            double sum = 0;                                                                                            \
            for (int k = 0; k < (n); k++)                                                                              \
                sum += left[i][k] * right[k][j];                                                                       \
            result[i][j] = sum;                                                                                        \
        }

/* A product of two matrices, of a size that the compiler knows. */
static inline void product(void) {
    if (edge == 4)
        MULTIPLY(4)
    else
        MULTIPLY(40)
    __asm__ volatile("" : : "r"(result) : "memory");
}

/* The matrices' size is the end of the name: 4x4 or 40x40. */
BENCH_FUNCTION void product_of(const char *what) {
    const char *last = strrchr(what, '-');
    edge = last && !strcmp(last, "-4x4") ? 4 : 40;
    for (int i = 0; i < EDGE_MOST; i++)
        for (int j = 0; j < EDGE_MOST; j++) {
            left[i][j] = 1 + i % 3;
            right[i][j] = 1.0 / (1 + j % 5);
        }
}

static double products(long count) {
    double start = bench_now();
    for (long i = 0; i < count; i++)
        product();
    return bench_now() - start;
}

/* Seconds of a product alone. */
BENCH_FUNCTION double product_alone(void) {
    double batches[BENCH_BATCHES];
    long count = 1;
    while (products(count) < PRODUCTS_LEAST && count < BENCH_MOST_ROUNDS)
        count *= 2;
    for (int b = 0; b < BENCH_BATCHES; b++)
        batches[b] = products(count) / (double)count;
    return bench_median(batches, BENCH_BATCHES);
}

BENCH_FUNCTION int changed(double before, double after) {
    return after > before * (1 + CHANGE_MOST) || before > after * (1 + CHANGE_MOST);
}

/* What a rank found. */
struct found {
    double before, after; /* seconds of a product */
    double products, elapsed;
    double seconds[SAMPLES_MOST]; /* of each operation, until this rank saw that it was over */
};

/* Until a moment that is the same for all, by the clock of the machine that they are on. */
static void start_together(void) {
    double mine = bench_now() + TOGETHER, all[kacc_ranks], last = 0;
    kacc_tell(&mine, sizeof mine, all);
    for (int i = 0; i < kacc_ranks; i++)
        last = all[i] > last ? all[i] : last;
    while (bench_now() < last) {
    }
}

/* An operation, and products until it is over, with a test after each. */
static double one_sample(double *count) {
    double start, seconds;
    long done = 0;
    operation_prepare();
    start_together();
    start = bench_now();
    operation_begin();
    do {
        product();
        done++;
    } while (!operation_test());
    seconds = bench_now() - start;
    operation_check();
    *count += (double)done;
    return seconds;
}

/* The longest that any rank says. */
static double longest(double mine) {
    double all[kacc_ranks], most = 0;
    kacc_tell(&mine, sizeof mine, all);
    for (int i = 0; i < kacc_ranks; i++)
        most = all[i] > most ? all[i] : most;
    return most;
}

/* How many samples there is time for. What happens only once, such as connecting, happens here. */
static int sample_count(void) {
    double ignored = 0, each = 0, fits;
    for (int i = 0; i < WARM; i++)
        each = longest(one_sample(&ignored));
    fits = bench.seconds / (each + TOGETHER);
    return fits < SAMPLES_FEWEST ? SAMPLES_FEWEST : fits > SAMPLES_MOST ? SAMPLES_MOST : (int)fits;
}

/* The processors on which any of the ranks may run: launchers may bind each to its own. They are those of one machine,
 * also where the ranks are in network namespaces. */
static void any_may_run_on(cpu_set_t *any) {
    cpu_set_t mine, all[kacc_ranks];
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    kacc_tell(&mine, sizeof mine, all);
    CPU_ZERO(any);
    for (int i = 0; i < kacc_ranks; i++)
        CPU_OR(any, any, &all[i]);
}

/* How many processors the ranks share. */
static int processors_shared(void) {
    cpu_set_t any;
    int count;
    any_may_run_on(&any);
    count = CPU_COUNT(&any);
    return count < 1 ? 1 : count < kacc_ranks ? count : kacc_ranks;
}

/* Keeps this process, with whatever threads it has, on the first or the second (0 or 1) of those processors. Where there
 * is but one, on that. */
BENCH_FUNCTION void stay_on(int which) {
    cpu_set_t any, one;
    struct dirent *entry;
    DIR *threads = opendir("/proc/self/task");
    any_may_run_on(&any);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && which >= 0; cpu++)
        if (CPU_ISSET(cpu, &any)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            which--;
        }
    if (!threads)
        kacc_fail("/proc/self/task cannot be read");
    while ((entry = readdir(threads)))
        /* One that has ended meanwhile runs nowhere. */
        if (entry->d_name[0] != '.')
            sched_setaffinity(atoi(entry->d_name), sizeof one, &one);
    closedir(threads);
}

/* All ranks' findings, the same on each rank; whether the time of a product stayed the same on all. */
static int find(int samples, struct found *all) {
    struct found mine = {0};
    kacc_meet();
    mine.before = product_alone();
    for (int s = 0; s < samples; s++) {
        mine.seconds[s] = one_sample(&mine.products);
        mine.elapsed += mine.seconds[s];
    }
    kacc_meet();
    mine.after = product_alone();
    kacc_tell(&mine, sizeof mine, all);
    for (int i = 0; i < kacc_ranks; i++)
        if (changed(all[i].before, all[i].after))
            return 0;
    return 1;
}

/* Per cent of the elapsed time of a processor that was not spent on products. Ranks that share one had a part each. */
static double share_lost(const struct found *all) {
    double spent = 0, elapsed = 0, lost;
    int processors = processors_shared();
    for (int i = 0; i < kacc_ranks; i++) {
        spent += all[i].products * (all[i].before + all[i].after) / 2;
        elapsed += all[i].elapsed;
    }
    lost = 1 - spent / (elapsed * processors / kacc_ranks);
    return lost > 0 ? 100 * lost : 0;
}

/* Microseconds of an operation until its slowest rank saw that it was over: the median. */
static double slowest_median(const struct found *all, int samples) {
    double slowest[SAMPLES_MOST];
    for (int s = 0; s < samples; s++) {
        slowest[s] = 0;
        for (int i = 0; i < kacc_ranks; i++)
            slowest[s] = all[i].seconds[s] > slowest[s] ? all[i].seconds[s] : slowest[s];
    }
    return 1e6 * bench_median(slowest, samples);
}

/* The figure for a value, of which the operation has been made: `lost` its share of time, or else its time. Not a number
 * where the time of a product changed in each attempt. */
BENCH_FUNCTION double kacc_figure(int lost) {
    struct found *all = malloc((size_t)kacc_ranks * sizeof *all);
    int samples = sample_count();
    double figure = NAN;
    if (!all)
        kacc_fail("no memory");
    for (int attempt = 0; attempt < ATTEMPTS && isnan(figure); attempt++)
        if (find(samples, all))
            figure = lost ? share_lost(all) : slowest_median(all, samples);
    free(all);
    return figure;
}

#endif
