/* Statuses of C as Fortran's, of both kinds, and back (the MPICH ABI has them; the standard one leaves them to a library for Fortran). */
#include "check.h"

static void convert(void)
{
#ifndef MPI_ABI_VERSION
    MPI_Status status, back;
    MPI_F08_status f08, other;
    MPI_Fint f[MPI_F_STATUS_SIZE], again[MPI_F_STATUS_SIZE];
    int word = 5, count;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, t_rank, 8, &word, 1, MPI_INT, t_rank, 8, MPI_COMM_WORLD, &status));

    OK(MPI_Status_c2f(&status, f));
    OK(MPI_Status_f2f08(f, &f08));
    OK(MPI_Status_f082f(&f08, again));
    OK(MPI_Status_f2c(again, &back));
    SAME(back.MPI_SOURCE, t_rank);
    SAME(back.MPI_TAG, 8);
    OK(MPI_Get_count(&back, MPI_INT, &count));
    SAME(count, 1);

    memset(&back, 0, sizeof back);
    OK(MPI_Status_c2f08(&status, &other));
    OK(MPI_Status_f082c(&other, &back));
    SAME(back.MPI_SOURCE, t_rank);
    SAME(back.MPI_TAG, 8);
    OK(MPI_Get_count(&back, MPI_INT, &count));
    SAME(count, 1);
#endif
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    convert();
    return t_done("status_convert");
}
