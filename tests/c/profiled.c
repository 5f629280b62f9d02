/* Run with profiler.so preloaded: each call is counted once, and the library calls none of them itself. */
#include "check.h"

extern int profiler_calls(const char *name) __attribute__((weak));

#define COUNT(name, want) SAME(profiler_calls(name), want)

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    CHECK(profiler_calls != NULL); /* was it preloaded? */
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, a = 1, b, *many = t_alloc((size_t)t_size * 2 * sizeof *many);
    MPI_Request r[2];
    MPI_Comm comm;
    COUNT("MPI_Barrier", 0); /* not by MPI_Init either */
    for (int i = 0; i < 5; i++) {
        OK(MPI_Irecv(&b, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &r[0]));
        OK(MPI_Isend(&a, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &r[1]));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Irecv(&b, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Send(&a, 1, MPI_INT, right, 0, MPI_COMM_WORLD));
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    OK(MPI_Isend(&a, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Recv(&b, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(&a, 1, MPI_INT, right, 1, &b, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Bcast(&a, 1, MPI_INT, 0, comm));
        OK(MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_SUM, comm));
    }
    for (int i = 0; i < t_size; i++)
        many[i] = i;
    OK(MPI_Alltoall(many, 1, MPI_INT, many + t_size, 1, MPI_INT, comm));
    OK(MPI_Allgather(&a, 1, MPI_INT, many, 1, MPI_INT, comm));
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
    COUNT("MPI_Irecv", 6);
    COUNT("MPI_Isend", 6);
    COUNT("MPI_Waitall", 5);
    COUNT("MPI_Wait", 2);
    COUNT("MPI_Send", 1);
    COUNT("MPI_Recv", 1);
    COUNT("MPI_Sendrecv", 1);
    COUNT("MPI_Comm_dup", 1);
    COUNT("MPI_Bcast", 3);
    COUNT("MPI_Allreduce", 3);
    COUNT("MPI_Alltoall", 1);
    COUNT("MPI_Allgather", 1);
    COUNT("MPI_Barrier", 1);
    free(many);
    return t_done("profiled");
}
