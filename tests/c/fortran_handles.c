/* Statuses and handles of C as Fortran's, and back (the MPICH ABI has them, with statuses of both kinds; for the standard one our header does it, and not everybody's). */
#include "check.h"

#if !defined MPI_ABI_VERSION || defined YAMABIKO

static void handles(void)
{
    MPI_Comm own, comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Datatype pair;
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    MPI_Op op = MPI_MAXLOC;
    MPI_Win win = MPI_WIN_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Message message = MPI_MESSAGE_NO_PROC;
    MPI_Errhandler handler = MPI_ERRORS_RETURN;
    int word = 5;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &own));
    comms[3] = own;
    for (int i = 0; i < 4; i++)
        CHECK(MPI_Comm_f2c(MPI_Comm_c2f(comms[i])) == comms[i]);
    CHECK(MPI_Comm_c2f(own) == MPI_Comm_toint(own));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    CHECK(MPI_Type_f2c(MPI_Type_c2f(pair)) == pair);
    OK(MPI_Comm_group(own, &group));
    CHECK(MPI_Group_f2c(MPI_Group_c2f(group)) == group);
    OK(MPI_Info_create(&info));
    CHECK(MPI_Info_f2c(MPI_Info_c2f(info)) == info);
    OK(MPI_Irecv(&word, 1, MPI_INT, t_rank, 1, own, &request));
    CHECK(MPI_Request_f2c(MPI_Request_c2f(request)) == request);
    OK(MPI_Send(&word, 1, MPI_INT, t_rank, 1, own));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(MPI_Op_f2c(MPI_Op_c2f(op)) == op && MPI_Win_f2c(MPI_Win_c2f(win)) == win);
    CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file && MPI_Message_f2c(MPI_Message_c2f(message)) == message);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(handler)) == handler);
    OK(MPI_Info_free(&info));
    OK(MPI_Group_free(&group));
    OK(MPI_Type_free(&pair));
    OK(MPI_Comm_free(&own));
}

static void statuses(void)
{
    MPI_Status status, back;
    MPI_Fint f[MPI_F_STATUS_SIZE];
    int word = 5, count;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, t_rank, 8, &word, 1, MPI_INT, t_rank, 8, MPI_COMM_WORLD, &status));
    OK(MPI_Status_c2f(&status, f));
    memset(&back, 0, sizeof back);
    OK(MPI_Status_f2c(f, &back));
    SAME(back.MPI_SOURCE, t_rank);
    SAME(back.MPI_TAG, 8);
    OK(MPI_Get_count(&back, MPI_INT, &count));
    SAME(count, 1);
#ifndef MPI_ABI_VERSION
    MPI_F08_status f08, other;
    MPI_Fint again[MPI_F_STATUS_SIZE];
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

#endif

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
#if !defined MPI_ABI_VERSION || defined YAMABIKO
    handles();
    statuses();
#endif
    return t_done("fortran_handles");
}
