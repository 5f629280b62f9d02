/* What the kernels of the experiments of FMPL's paper share, whichever library they are for: the time of an
 * operation, as bench_mpi.h has it for MPI programs.
 *
 * A kernel defines the functions declared here and calls `paper_measure`. */
#ifndef PAPER_H
#define PAPER_H

#include "bench.h"

static int me, ranks;

/* Ends all processes. */
static void fail(const char *why);
/* Waits for all processes. */
static void meet(void);
/* Each number becomes the greatest that any process has. None is negative. */
static void greatest(double *numbers, int count);

/* Arrays of which figures 9 and 11 have times. */
enum { PAPER_ARRAY = 8 << 10 };
/* Elements of 8 bytes. */
enum { PAPER_ELEMENT = 8 };

/* Where `malloc` puts long memory: so far behind the start of a page. */
enum { PAPER_PAGE = 4096, PAPER_BEGIN = 16 };

/* Memory that has been touched, of doubles that are 0, for `paper_free`. All lies as `malloc`'s long memory does: where short memory lies
 * depends on what a library has allocated before, and decides a tenth of what messages of 1 KiB take. */
BENCH_FUNCTION void *paper_memory(size_t bytes) {
    char *all = malloc(bytes + 1 + PAPER_PAGE + PAPER_BEGIN), *memory;
    if (!all)
        fail("no memory");
    memory = all + (PAPER_PAGE - (size_t)all % PAPER_PAGE) + PAPER_BEGIN;
    ((char **)memory)[-1] = all;
    memset(memory, 0, bytes + 1);
    return memory;
}

BENCH_FUNCTION void paper_free(void *memory) {
    free(((char **)memory)[-1]);
}

/* Roots rotate: also from one batch to the next, which may be a single round. */
static int paper_turns;

/* The root of a round. */
BENCH_FUNCTION int paper_root(int round) {
    return (paper_turns + round) % ranks;
}

/* So many rounds are over. */
BENCH_FUNCTION void paper_turned(int rounds) {
    paper_turns = paper_root(rounds);
}

/* What reading the clock costs, in seconds: it is taken off where a round is as short as a message. */
BENCH_FUNCTION double paper_clock(void) {
    double least = 1;
    for (int i = 0; i < 1000; i++) {
        double start = bench_now(), took = bench_now() - start;
        least = took < least ? took : least;
    }
    return least;
}

/* Sums of such times: at least a nanosecond for each, below which the clock tells nothing. */
BENCH_FUNCTION double paper_told(double seconds, int times) {
    double least = 1e-9 * times;
    return seconds < least ? least : seconds;
}

BENCH_FUNCTION double paper_slowest(double mine) {
    greatest(&mine, 1);
    return mine;
}

/* Seconds that so many rounds take from beginning to end, also what `run` does not count. */
BENCH_FUNCTION double paper_whole(double (*run)(int rounds), int rounds) {
    double start = bench_now();
    run(rounds);
    return paper_slowest(bench_now() - start);
}

/* Seconds that a round takes: median of batches, each with the time of its slowest process. `run` makes so
 * many rounds and returns the seconds they took, 0 in a process whose time does not count. What is measured may be
 * a small part of what has to be done for it: the time to spend is for the whole. All call this. */
BENCH_FUNCTION double paper_measure(double (*run)(int rounds)) {
    double times[BENCH_BATCHES], once, again;
    int rounds = 1, batches;
    /* What happens only once, such as connecting, happens here. */
    run(1);
    run(1);
    for (;; rounds *= 2) {
        /* The shorter of two, lest a moment without a processor make a batch too short. */
        once = paper_whole(run, rounds);
        again = paper_whole(run, rounds);
        once = once < again ? once : again;
        if (once >= bench.seconds / BENCH_BATCHES / 2 || rounds >= BENCH_MOST_ROUNDS)
            break;
    }
    bench_plan(once / rounds, &rounds, &batches);
    for (int b = 0; b < batches; b++) {
        meet();
        times[b] = run(rounds) / rounds;
    }
    greatest(times, batches);
    return bench_median(times, batches);
}

/* Prints rank 0's figure. */
BENCH_FUNCTION void paper_figure(int i, double figure) {
    if (me == 0)
        bench_point(i, figure);
}

#endif
