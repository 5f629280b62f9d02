/* One message above 2 GiB, and one of more than 2^31 elements.  Needs about 5 GB of memory: for soak runs. */
#include "check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    MPI_Count n = ((MPI_Count)1 << 31) + 4099, got;
    MPI_Status s;
    if (t_size >= 2 && t_rank < 2) {
        unsigned char *memory = t_alloc((size_t)n + 1);
        if (t_rank == 0) {
            for (MPI_Count i = 0; i < n; i++)
                memory[i] = (unsigned char)(i * 2654435761u >> 24);
            OK(MPI_Send_c(memory, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
            OK(MPI_Recv_c(memory, n, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &s));
        } else {
            memory[n] = 0x5A;
            OK(MPI_Recv_c(memory, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &s));
            OK(MPI_Get_count_c(&s, MPI_BYTE, &got));
            SAME(got, n);
            int small;
            OK(MPI_Get_count(&s, MPI_BYTE, &small));
            SAME(small, MPI_UNDEFINED);
            for (MPI_Count i = 0; i < n; i++)
                if (memory[i] != (unsigned char)(i * 2654435761u >> 24))
                    t_fail(__FILE__, __LINE__, "byte %lld is wrong", (long long)i);
            SAME(memory[n], 0x5A);
            OK(MPI_Ssend_c(memory, n, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
        }
        free(memory);
    }
    return t_done("p2p_huge");
}
