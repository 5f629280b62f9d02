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

/* A product of two matrices, of a size that the compiler knows. There is one copy of it: of several one may be half as fast again as another, and
 * what the products took alone would tell nothing. */
__attribute__((noinline)) static void product(void) {
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

/* So many that they last `PRODUCTS_LEAST`: the shorter of two times, lest what happens only at first, or a moment without a processor, make them too few. */
BENCH_FUNCTION long enough(double (*run)(long count)) {
    double once, again;
    long count;
    for (count = 1; count < BENCH_MOST_ROUNDS; count *= 2) {
        once = run(count);
        again = run(count);
        if (once >= PRODUCTS_LEAST && again >= PRODUCTS_LEAST)
            break;
    }
    return count;
}

/* Seconds of a product alone. */
BENCH_FUNCTION double product_alone(void) {
    double batches[BENCH_BATCHES];
    long count = enough(products);
    for (int b = 0; b < BENCH_BATCHES; b++)
        batches[b] = products(count) / (double)count;
    return bench_median(batches, BENCH_BATCHES);
}

BENCH_FUNCTION int changed(double before, double after) {
    return after > before * (1 + CHANGE_MOST) || before > after * (1 + CHANGE_MOST);
}

/* Whether each rank stays on a processor of its own: rank r on that of number r, of those they share. */
static int on_processors;

/* What is to be measured: the name, without what says that each rank stays on a processor. */
static void kacc_what(void) {
    const char *stays = "steer-";
    on_processors = !strncmp(bench.what, stays, strlen(stays));
    if (on_processors)
        bench.what += strlen(stays);
}

/* What a rank found. */
struct found {
    double before, after; /* seconds of a product */
    double products, elapsed;
    struct packets {
        double first, all;
    } packets; /* that processors received meanwhile */
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

/* Packets that the first of the ranks' processors has received, and all of this machine's, since it started. The kernel counts them in
 * its receive path, for all network namespaces together. */
static struct packets packets_received(int first) {
    struct packets count = {0, 0};
    char line[512];
    FILE *file = fopen("/proc/net/softnet_stat", "r");
    if (!file)
        kacc_fail("/proc/net/softnet_stat cannot be read");
    while (fgets(line, sizeof line, file)) {
        unsigned packets, word, cpu = 0;
        int at, next;
        if (sscanf(line, "%x%n", &packets, &at) != 1)
            kacc_fail("/proc/net/softnet_stat has another form");
        /* The 13th word is the processor. */
        for (int i = 2; i <= 13 && sscanf(line + at, "%x%n", &word, &next) == 1; i++, at += next)
            cpu = word;
        count.first += (int)cpu == first ? packets : 0;
        count.all += packets;
    }
    fclose(file);
    return count;
}

/* All ranks' findings, the same on each rank; whether the time of a product stayed the same on all. */
static int find(int samples, struct found *all) {
    struct found mine = {0};
    struct packets before, after;
    cpu_set_t any;
    int first = 0;
    any_may_run_on(&any);
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &any))
        first++;
    kacc_meet();
    mine.before = product_alone();
    before = packets_received(first);
    for (int s = 0; s < samples; s++) {
        mine.seconds[s] = one_sample(&mine.products);
        mine.elapsed += mine.seconds[s];
    }
    after = packets_received(first);
    mine.packets = (struct packets){after.first - before.first, after.all - before.all};
    kacc_meet();
    mine.after = product_alone();
    kacc_tell(&mine, sizeof mine, all);
    for (int i = 0; i < kacc_ranks; i++)
        if (changed(all[i].before, all[i].after))
            return 0;
    return 1;
}

/* Per cent of the elapsed time of `processors` that was not spent on products, by the ranks from `from` on, each `step` of them: their ranks.
 * Those that share one had a part each. Not a number where there are none. */
static double share_lost_of(const struct found *all, int from, int step, int processors) {
    double spent = 0, elapsed = 0, lost;
    int ranks = 0;
    for (int i = from; i < kacc_ranks; i += step, ranks++) {
        spent += all[i].products * (all[i].before + all[i].after) / 2;
        elapsed += all[i].elapsed;
    }
    lost = 1 - spent / (elapsed * processors / ranks);
    return ranks == 0 ? NAN : lost > 0 ? 100 * lost : 0;
}

/* The same of all, or if each stays on its own, of the first or the others. */
static double share_lost(const struct found *all) {
    int processors = processors_shared();
    double share = 0, one;
    if (!strncmp(bench.what, "lost-", 5))
        return share_lost_of(all, 0, 1, processors);
    if (!strncmp(bench.what, "first-", 6))
        return share_lost_of(all, 0, processors, 1);
    for (int p = 1; p < processors; p++) {
        one = share_lost_of(all, p, processors, 1);
        share += one / (processors - 1);
    }
    return processors > 1 ? share : NAN;
}

/* Per cent of the packets that the first processor received. */
static double share_received(const struct found *all) {
    return all[0].packets.all > 0 ? 100 * all[0].packets.first / all[0].packets.all : NAN;
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

/* The figure for a value, of which the operation has been made, by what is measured: a time, or a share. Not a number
 * where the time of a product changed in each attempt. */
BENCH_FUNCTION double kacc_figure(void) {
    struct found *all = malloc((size_t)kacc_ranks * sizeof *all);
    int samples = sample_count();
    double figure = NAN;
    if (!all)
        kacc_fail("no memory");
    for (int attempt = 0; attempt < ATTEMPTS && isnan(figure); attempt++) {
        int steady = find(samples, all);
        if (!strncmp(bench.what, "packets-", 8))
            figure = share_received(all);
        else if (steady)
            figure = !strncmp(bench.what, "time-", 5) ? slowest_median(all, samples) : share_lost(all);
    }
    free(all);
    return figure;
}

#endif
