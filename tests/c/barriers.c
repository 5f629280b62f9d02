/* How long a thousand barriers take, also with more ranks than processors.
 *
 * Arguments: [most seconds, no limit by default]
 */
#include "check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    double limit = argc > 1 ? atof(argv[1]) : 0, best = 1e9;
    for (int trial = 0; trial < 5; trial++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        double start = t_seconds();
        for (int i = 0; i < 1000; i++)
            OK(MPI_Barrier(MPI_COMM_WORLD));
        double mine = t_seconds() - start, longest;
        OK(MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        if (longest < best)
            best = longest;
    }
    if (t_rank == 0)
        fprintf(stderr, "1000 barriers of %d ranks: %.4f s\n", t_size, best);
    CHECK(limit == 0 || best < limit);
    return t_done("barriers");
}
