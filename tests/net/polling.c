/* Ranks 0 and 1 can't reach each other, all others can.  Both only poll, one with a receive and one with probes, and learn it all
 * the same.
 */
#include "../c/check.h"

static int tested(void)
{
    int word, flag = 0, error = MPI_SUCCESS;
    MPI_Request request;
    OK(MPI_Irecv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request));
    while (!flag && error == MPI_SUCCESS)
        error = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return error;
}

static int probed(void)
{
    int flag = 0, error = MPI_SUCCESS;
    while (!flag && error == MPI_SUCCESS)
        error = MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return error;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    double start = t_seconds();
    if (t_rank == 0)
        FAILS(tested(), MPI_ERR_PROC_ABORTED);
    if (t_rank == 1)
        FAILS(probed(), MPI_ERR_PROC_ABORTED);
    double knew = t_seconds() - start;
    OK(MPI_Finalize());
    printf("rank %d finalized after %.0f s, knew after %.0f s\n", t_rank, t_seconds() - start, knew);
    return 0;
}
