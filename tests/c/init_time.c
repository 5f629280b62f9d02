/* How long MPI_Init takes in a rank.
 *
 * Arguments: [most milliseconds, no limit by default]
 */
#include "check.h"

int main(int argc, char **argv)
{
    double start = t_seconds();
    t_init(&argc, &argv);
    double mine = 1e3 * (t_seconds() - start), longest, limit = argc > 1 ? atof(argv[1]) : 0;
    OK(MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    if (t_rank == 0)
        fprintf(stderr, "MPI_Init with %d ranks: %.2f ms\n", t_size, longest);
    CHECK(limit == 0 || longest < limit);
    return t_done("init_time");
}
