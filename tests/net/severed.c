/* Ranks 0 and 1 can't reach each other, all others can: rank 0 gives rank 1 up and finalizes, and rank 1, which waits for it, learns
 * that.  Nobody waits for ever, and everybody's MPI_Finalize is a success.
 */
#include "../c/check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    double start = t_seconds();
    int word = 7;
    if (t_rank == 0)
        FAILS(MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    if (t_rank == 1)
        FAILS(MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    double knew = t_seconds() - start;
    OK(MPI_Finalize());
    printf("rank %d finalized after %.0f s, knew after %.0f s\n", t_rank, t_seconds() - start, knew);
    return 0;
}
