/* A call before MPI_Init ends the job, and who made it is named although it has no rank yet. */
#include "check.h"

int main(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &t_rank);
    printf("MPI_Comm_rank came back\n");
    return 0;
}
