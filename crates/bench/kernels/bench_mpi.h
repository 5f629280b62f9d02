/* What the kernels that are MPI programs share beyond bench.h: start and end, and batches whose time is
 * that of the slowest rank. */
#ifndef BENCH_MPI_H
#define BENCH_MPI_H

#include "bench.h"
#include <mpi.h>

static int bench_rank, bench_ranks;

#define BENCH_WORLD MPI_COMM_WORLD
#define BENCH_TAG 1

BENCH_FUNCTION void bench_fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    MPI_Abort(BENCH_WORLD, 1);
}

/* Begins a kernel that wants at least `least` ranks, and of MPI that its threads may call it as `level` says. */
BENCH_FUNCTION void bench_init_thread(int *argc, char ***argv, int least, int level) {
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, granted;
    MPI_Init_thread(argc, argv, level, &granted);
    MPI_Comm_rank(BENCH_WORLD, &bench_rank);
    MPI_Comm_size(BENCH_WORLD, &bench_ranks);
    MPI_Get_library_version(name, &length);
    if (granted < level)
        bench_fail("this library was built without the level of threads that is to be measured");
    if (!bench_arguments(*argc, *argv))
        bench_fail("arguments: MILLISECONDS WHAT HOW VALUE...");
    if (bench_ranks < least)
        bench_fail("too few ranks");
    if (bench_rank == 0)
        bench_library(name);
}

/* The same for a program that has one thread. */
BENCH_FUNCTION void bench_init(int *argc, char ***argv, int least) {
    bench_init_thread(argc, argv, least, MPI_THREAD_SINGLE);
}

BENCH_FUNCTION void bench_finish(void) {
    if (bench_rank == 0)
        bench_end();
    MPI_Finalize();
}

/* Prints rank 0's figure. */
BENCH_FUNCTION void bench_figure(int i, double figure) {
    if (bench_rank == 0)
        bench_point(i, figure);
}

/* Memory that has been touched. */
BENCH_FUNCTION void *bench_memory(size_t bytes) {
    void *memory = malloc(bytes + 1);
    if (!memory)
        bench_fail("no memory");
    memset(memory, 1, bytes + 1);
    return memory;
}

BENCH_FUNCTION double bench_slowest(double mine) {
    double slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, BENCH_WORLD);
    return slowest;
}

/* Seconds that a round takes: median of batches, each with the time of its slowest rank. `run` makes so
 * many rounds and returns the seconds they took, 0 on a rank whose time does not count. All ranks call
 * this. */
BENCH_FUNCTION double bench_measure(double (*run)(int rounds)) {
    double mine[BENCH_BATCHES], slowest[BENCH_BATCHES], once, again;
    int rounds = 1, batches;
    /* What happens only once, such as connecting, happens here. */
    run(1);
    run(1);
    for (;; rounds *= 2) {
        /* The shorter of two, lest a moment without a processor make a batch too short. */
        once = bench_slowest(run(rounds));
        again = bench_slowest(run(rounds));
        once = once < again ? once : again;
        if (once >= bench.seconds / BENCH_BATCHES / 2 || rounds >= BENCH_MOST_ROUNDS)
            break;
    }
    bench_plan(once / rounds, &rounds, &batches);
    for (int b = 0; b < batches; b++) {
        MPI_Barrier(BENCH_WORLD);
        mine[b] = run(rounds) / rounds;
    }
    MPI_Allreduce(mine, slowest, batches, MPI_DOUBLE, MPI_MAX, BENCH_WORLD);
    return bench_median(slowest, batches);
}

#endif
