/* MPI_Abort in the last rank while the others wait: the launcher ends with its code. */
#include "check.h"

int main(int argc, char **argv)
{
    int never;
    t_init(&argc, &argv);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == t_size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    MPI_Recv(&never, 1, MPI_INT, t_size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
