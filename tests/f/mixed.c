/* A C program whose Fortran part lies in a shared library (mixed_part.f90): communicators, attributes and
 * ignored statuses between the languages. The common blocks are then that library's, not the program's. */
#include <mpi.h>
#include <stdio.h>

void fortran_part_(int *comm, int *keyval, int *ours);

#ifndef MPI_ABI_VERSION
/* Called by Fortran with an ignored status: C has the address of that constant. The standard ABI has not. */
void is_ignored_(int *one, int *many, int *flag)
{
    *flag = one == MPI_F_STATUS_IGNORE && many == MPI_F_STATUSES_IGNORE;
}
#else
void is_ignored_(int *one, int *many, int *flag)
{
    *flag = one != many;
}
#endif

static void check(int is_so, const char *what)
{
    if (!is_so) {
        printf("not so: %s\n", what);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int keyval, ours, fcomm, flag, rank, number = 7;
    void *value;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &ours, NULL);
    MPI_Comm_set_attr(comm, ours, &number);
    fcomm = MPI_Comm_toint(comm);
    fortran_part_(&fcomm, &keyval, &ours);
    /* What Fortran stores, C gets by address. */
    MPI_Comm_get_attr(comm, keyval, &value, &flag);
    check(flag && *(MPI_Aint *)value == -123456789012, "an attribute from Fortran");
    MPI_Comm_free(&comm);
    if (rank == 0)
        printf("ok mixed\n");
    MPI_Comm_free_keyval(&keyval);
    MPI_Comm_free_keyval(&ours);
    return MPI_Finalize();
}
