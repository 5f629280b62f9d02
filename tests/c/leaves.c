/* A rank ends without MPI_Finalize while all others wait for it. Argument 1: its exit code. mpiexec has to name that rank and this code, and no
 * rank that could not go on.
 */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int never;
    t_init(&argc, &argv);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 1)
        _exit(argc > 1 ? atoi(argv[1]) : 0);
    MPI_Recv(&never, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
