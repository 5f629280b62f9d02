/* A program for another MPI's compiler: its library must work under our launcher. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, sum;
    const char *request = argc > 1 ? argv[1] : "hello";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(request, "unfinalized") == 0)
        _exit(0);
    if (strcmp(request, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(request, "die") == 0 && rank == 1)
        raise(SIGKILL);
    if (strcmp(request, "spawn") == 0) {
        MPI_Comm children;
        MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    }
    if (strcmp(request, "hello") == 0)
        printf("rank %d of %d, sum %d\n", rank, size, sum);
    else
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
