/* Starting up. VALUE is the number of ranks.
 *
 *   init     milliseconds in MPI_Init, of the slowest rank
 *   launch   nothing: the whole run is timed, from outside */
#include "bench_mpi.h"

static int launched_only(int argc, char **argv) {
    return argc > 2 && !strcmp(argv[2], "launch");
}

int main(int argc, char **argv) {
    double start = bench_now(), mine, slowest;
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Init(&argc, &argv);
    mine = bench_now() - start;
    if (launched_only(argc, argv)) {
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(BENCH_WORLD, &bench_rank);
    MPI_Get_library_version(name, &length);
    if (!bench_arguments(argc, argv))
        bench_fail("arguments: MILLISECONDS WHAT HOW VALUE...");
    slowest = bench_slowest(mine);
    if (bench_rank == 0) {
        bench_library(name);
        bench_point(0, 1e3 * slowest);
    }
    bench_finish();
    return 0;
}
