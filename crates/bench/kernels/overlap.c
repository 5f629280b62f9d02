/* How much of a non-blocking operation goes on while the ranks compute, in per cent, by bytes. As in the
 * Intel MPI Benchmarks (IMB-NBC): `pure` is the time of the operation with its wait, `compute` that of a
 * computation made to last as long, `both` that of starting the operation, computing and waiting; what is
 * saved, pure + compute - both, is related to the longer of pure and compute and kept between 0 and 100.
 *
 * That says nothing of how long the operation takes: one that takes a thousand times longer, as its thread waits for
 * a processor, may have half of it hidden. So an operation's name with `-cost` behind it has, in microseconds, by how much it
 * makes a computation longer that is as long with every library: both - compute, of 100 us and 0.1 ns for each byte.
 *
 * Nothing of the library is called while computing. Roots rotate. `isend`: each rank sends to the next and
 * receives from the one before. */
#include "bench_mpi.h"

enum { EDGE = 24 };

static const char COST[] = "-cost";
static char *out, *in;
static int bytes;
static long repeats; /* of the computation that lasts as long as the operation */
static float matrix[EDGE][EDGE], vector[EDGE], product[EDGE];

static void compute(long times) {
    for (long t = 0; t < times; t++) {
        for (int i = 0; i < EDGE; i++) {
            float sum = 0;
            for (int j = 0; j < EDGE; j++)
                sum += matrix[i][j] * vector[j];
            product[i] = sum;
        }
        __asm__ volatile("" : : "r"(product) : "memory");
    }
}

/* Whether that operation is measured, in either way. */
static int is(const char *operation) {
    size_t length = strlen(operation);
    return bench_is(operation) || (!strncmp(bench.what, operation, length) && !strcmp(bench.what + length, COST));
}

/* Starts the operation; gives the number of requests. */
static int start_operation(int round, MPI_Request *requests) {
    int next = (bench_rank + 1) % bench_ranks, before = (bench_rank + bench_ranks - 1) % bench_ranks;
    if (is("isend")) {
        MPI_Irecv(in, bytes, MPI_CHAR, before, BENCH_TAG, BENCH_WORLD, &requests[0]);
        MPI_Isend(out, bytes, MPI_CHAR, next, BENCH_TAG, BENCH_WORLD, &requests[1]);
        return 2;
    }
    if (is("ibcast"))
        MPI_Ibcast(out, bytes, MPI_CHAR, round % bench_ranks, BENCH_WORLD, requests);
    else if (is("iallreduce"))
        MPI_Iallreduce(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, BENCH_WORLD, requests);
    else if (is("iallgather"))
        MPI_Iallgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, BENCH_WORLD, requests);
    else if (is("ialltoall"))
        MPI_Ialltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, BENCH_WORLD, requests);
    else
        bench_fail("no such operation");
    return 1;
}

static double pure(int rounds) {
    MPI_Request requests[2];
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Waitall(start_operation(i, requests), requests, MPI_STATUSES_IGNORE);
    return bench_now() - start;
}

static double alone(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        compute(repeats);
    return bench_now() - start;
}

static double both(int rounds) {
    MPI_Request requests[2];
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        int count = start_operation(i, requests);
        compute(repeats);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - start;
}

/* Makes the computation last so many seconds. */
static void compute_for(double seconds) {
    repeats = 1024;
    repeats = (long)(seconds / bench_measure(alone) * 1024) + 1;
}

static double share_hidden(void) {
    double t_pure = bench_measure(pure), t_compute, t_both, saved;
    compute_for(t_pure);
    t_compute = bench_measure(alone);
    t_both = bench_measure(both);
    saved = (t_pure + t_compute - t_both) / (t_pure > t_compute ? t_pure : t_compute);
    return 100 * (saved < 0 ? 0 : saved > 1 ? 1 : saved);
}

/* At least a nanosecond: what is lost in the noise of the two times costs little, not nothing, and ratios are made of it. */
static double cost(void) {
    double t_compute, t_both;
    compute_for(100e-6 + 0.1e-9 * bytes);
    t_compute = bench_measure(alone);
    t_both = bench_measure(both);
    return 1e6 * (t_both - t_compute > 1e-9 ? t_both - t_compute : 1e-9);
}

int main(int argc, char **argv) {
    size_t length;
    int costs;
    bench_init(&argc, &argv, 1);
    length = strlen(bench.what);
    costs = length > strlen(COST) && !strcmp(bench.what + length - strlen(COST), COST);
    for (int i = 0; i < bench.count; i++) {
        size_t size = bench_value(i), all = size * (size_t)bench_ranks;
        bytes = (int)size;
        out = bench_memory(all);
        in = bench_memory(all);
        memset(out, 0, all);
        bench_figure(i, costs ? cost() : share_hidden());
        free(out);
        free(in);
    }
    bench_finish();
    return 0;
}
