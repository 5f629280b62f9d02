/* Statuses that some libraries forget to set (MPICH 5.0.2 among them, so this file is not run there):
 * of MPI_Isendrecv, MPI_Isendrecv_replace, and of a persistent receive from MPI_PROC_NULL.
 */
#include "check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, got;
    static char out[200000], in[200000];
    static const int sizes[] = {0, 1, 50, 3000, 200000};
    MPI_Request r;
    MPI_Status s;
    for (int i = 0; i < 5; i++)
        for (int way = 0; way < 2; way++) {
            memset(&s, 0x33, sizeof s);
            if (way)
                OK(MPI_Isendrecv_replace(in, sizes[i], MPI_CHAR, right, 4, left, MPI_ANY_TAG, MPI_COMM_WORLD, &r));
            else
                OK(MPI_Isendrecv(out, sizes[i], MPI_CHAR, right, 4, in, sizes[4], MPI_CHAR, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &r));
            OK(MPI_Wait(&r, &s));
            SAME(s.MPI_SOURCE, left);
            SAME(s.MPI_TAG, 4);
            OK(MPI_Get_count(&s, MPI_CHAR, &got));
            SAME(got, sizes[i]);
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    OK(MPI_Recv_init(in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r));
    for (int i = 0; i < 2; i++) {
        memset(&s, 0x33, sizeof s);
        OK(MPI_Start(&r));
        OK(MPI_Wait(&r, &s));
        SAME(s.MPI_SOURCE, MPI_PROC_NULL);
        SAME(s.MPI_TAG, MPI_ANY_TAG);
        OK(MPI_Get_count(&s, MPI_INT, &got));
        SAME(got, 0);
    }
    OK(MPI_Request_free(&r));
    return t_done("p2p_status");
}
