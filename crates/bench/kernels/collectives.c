/* A collective operation, microseconds a call on the slowest rank, by the bytes that a rank contributes
 * (of an alltoall: to each other rank). Roots rotate. Reductions add doubles, or bytes where the size is
 * no multiple of 8. */
#include "bench_mpi.h"

static char *out, *in;
static int bytes;

/* The next root. It goes on where the last batch ended: of a batch of one long round the root would always be the
 * same, and find its data in its cache. */
static int next_root(void) {
    static int root;
    root = (root + 1) % bench_ranks;
    return root;
}

static double barrier(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Barrier(BENCH_WORLD);
    return bench_now() - start;
}

static double bcast(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Bcast(out, bytes, MPI_CHAR, next_root(), BENCH_WORLD);
    return bench_now() - start;
}

static MPI_Datatype element(void) {
    return bytes % 8 ? MPI_SIGNED_CHAR : MPI_DOUBLE;
}

static double reduce(int rounds) {
    MPI_Datatype type = element();
    int count = bytes % 8 ? bytes : bytes / 8;
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Reduce(out, in, count, type, MPI_SUM, next_root(), BENCH_WORLD);
    return bench_now() - start;
}

static double allreduce(int rounds) {
    MPI_Datatype type = element();
    int count = bytes % 8 ? bytes : bytes / 8;
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Allreduce(out, in, count, type, MPI_SUM, BENCH_WORLD);
    return bench_now() - start;
}

static double allgather(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Allgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, BENCH_WORLD);
    return bench_now() - start;
}

static double alltoall(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, BENCH_WORLD);
    return bench_now() - start;
}

static const struct {
    const char *name;
    double (*run)(int rounds);
} operations[] = {{"barrier", barrier},     {"bcast", bcast},         {"reduce", reduce},
                  {"allreduce", allreduce}, {"allgather", allgather}, {"alltoall", alltoall}};

int main(int argc, char **argv) {
    double (*run)(int) = NULL;
    bench_init(&argc, &argv, 1);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (bench_is(operations[i].name))
            run = operations[i].run;
    if (!run)
        bench_fail("no such operation");
    for (int i = 0; i < bench.count; i++) {
        size_t size = bench_value(i);
        bytes = (int)size;
        out = bench_memory(size * (size_t)bench_ranks);
        in = bench_memory(size * (size_t)bench_ranks);
        /* Of doubles that are small numbers, for ever. */
        memset(out, 0, size * (size_t)bench_ranks);
        bench_figure(i, 1e6 * bench_measure(run));
        free(out);
        free(in);
    }
    bench_finish();
    return 0;
}
