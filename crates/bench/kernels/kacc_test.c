/* Nanoseconds of an MPI_Test, on the slowest rank: the time of products with a test after each has that in it. By HOW:
 *
 *   inactive    of a persistent request that was not started
 *   pending     of a receive whose message never comes
 *   collective  of an MPI_Ibcast that the root has not come to yet */
#define _GNU_SOURCE
#include "kacc_mpi.h"

/* A message that is never sent, and the one by which the root learns that it may come. */
enum { NEVER = 7, COME = 8 };

/* The requests were made here: kacc_mpi.h has none for this. */
static MPI_Request tested;
static int expected;

static double tests(long count) {
    int flag, as_expected = 1;
    double start = bench_now();
    for (long i = 0; i < count; i++) {
        MPI_Test(&tested, &flag, MPI_STATUS_IGNORE);
        as_expected &= flag == expected;
    }
    if (!as_expected)
        bench_fail("a request is over that cannot be, or the other way round");
    return bench_now() - start;
}

static double median_test(void) {
    double batches[BENCH_BATCHES];
    long count = enough(tests);
    for (int b = 0; b < BENCH_BATCHES; b++)
        batches[b] = tests(count) / (double)count;
    return bench_median(batches, BENCH_BATCHES);
}

static double inactive(void) {
    double seconds;
    expected = 1;
    MPI_Recv_init(data, 1, MPI_CHAR, MPI_ANY_SOURCE, NEVER, BENCH_WORLD, &tested);
    seconds = median_test();
    MPI_Request_free(&tested);
    return seconds;
}

static double pending(void) {
    double seconds;
    expected = 0;
    MPI_Irecv(data, 1, MPI_CHAR, (kacc_rank + 1) % kacc_ranks, NEVER, BENCH_WORLD, &tested);
    kacc_meet();
    seconds = median_test();
    MPI_Cancel(&tested);
    MPI_Wait(&tested, MPI_STATUS_IGNORE);
    return seconds;
}

static double collective(void) {
    double seconds = 0;
    expected = 0;
    if (kacc_rank == 0) {
        for (int i = 1; i < kacc_ranks; i++)
            MPI_Recv(sum, 1, MPI_CHAR, i, COME, BENCH_WORLD, MPI_STATUS_IGNORE);
        MPI_Ibcast(data, 1, MPI_CHAR, 0, BENCH_WORLD, &tested);
    } else {
        MPI_Ibcast(data, 1, MPI_CHAR, 0, BENCH_WORLD, &tested);
        seconds = median_test();
        MPI_Send(sum, 1, MPI_CHAR, 0, COME, BENCH_WORLD);
    }
    MPI_Wait(&tested, MPI_STATUS_IGNORE);
    return seconds;
}

int main(int argc, char **argv) {
    double (*measured)(void);
    kacc_init(&argc, &argv, 2);
    measured = how("inactive") ? inactive : how("pending") ? pending : how("collective") ? collective : NULL;
    if (!measured)
        bench_fail("no such request");
    data = bench_memory(1);
    sum = bench_memory(1);
    for (int i = 0; i < bench.count; i++)
        bench_figure(i, 1e9 * longest(measured()));
    operation_free();
    bench_finish();
    return 0;
}
