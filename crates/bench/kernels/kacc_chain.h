/* The chain: rank 0 sends to 1, which sends to 2, while 1 computes. The relay is alone on a processor, root and leaf share
 * another and wait for the operation as their library does. The figure is the microseconds from the root's start to the end
 * of the leaf's wait, by the clock of the machine that all are on. Behind its wait the root only gives way for a while: where
 * all hosts are one machine, what it sends to compare times would else take the leaf's processor before the leaf has its
 * data (4 KiB between hosts: 60 us in place of 23). `silent`: the relay calls nothing until long after; otherwise it tests
 * after each product. */
#ifndef KACC_CHAIN_H
#define KACC_CHAIN_H

#include "kacc.h"

enum { ROOT, RELAY, LEAF, CHAIN };

/* Seconds by which the root is later, so that the leaf waits and the relay computes; and for which it gives way at the end. */
#define ROOT_LATER 300e-6
/* Seconds for which a silent relay computes. */
#define SILENCE 50e-3

static void relay(int silent) {
    double until = bench_now() + SILENCE;
    operation_begin();
    if (silent) {
        while (bench_now() < until)
            product();
        operation_wait();
    } else {
        do
            product();
        while (!operation_test());
    }
}

/* A sleep would cost the leaf the time that the kernel takes for its timer (4 KiB in a node: 11 us in place of 5). */
static void give_way(double until) {
    while (bench_now() < until)
        sched_yield();
}

static double chain_sample(int silent) {
    struct timespec later = {0, (long)(1e9 * ROOT_LATER)};
    double mine, all[CHAIN];
    operation_prepare();
    kacc_meet();
    if (kacc_rank == ROOT)
        nanosleep(&later, NULL);
    mine = bench_now();
    if (kacc_rank == RELAY) {
        relay(silent);
    } else {
        operation_begin();
        operation_wait();
    }
    if (kacc_rank == LEAF)
        mine = bench_now();
    if (kacc_rank == ROOT)
        give_way(bench_now() + ROOT_LATER);
    operation_check();
    kacc_tell(&mine, sizeof mine, all);
    return all[LEAF] - all[ROOT];
}

/* The figure for a value, of which the operation has been made. */
static double chain_figure(int silent) {
    double seconds[SAMPLES_MOST], each = 0;
    int samples;
    for (int i = 0; i < WARM; i++)
        each = chain_sample(silent);
    each = bench.seconds / (silent ? SILENCE : each + 2 * ROOT_LATER);
    samples = each < SAMPLES_FEWEST ? SAMPLES_FEWEST : each > SAMPLES_MOST ? SAMPLES_MOST : (int)each;
    for (int s = 0; s < samples; s++)
        seconds[s] = chain_sample(silent);
    return 1e6 * bench_median(seconds, samples);
}

/* What has to be before: three ranks, each in its place. */
static void chain_begin(void) {
    if (kacc_ranks != CHAIN)
        kacc_fail("a chain has three ranks");
    stay_on(kacc_rank == RELAY);
}

#endif
