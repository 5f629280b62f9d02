/* The large-count forms of the collectives, blocking and non-blocking, one of each kind. */
#include "check.h"

enum { N = 5 };

static int in[64 * N], out[64 * N];

static void fresh(void)
{
    for (int i = 0; i < 64 * N; i++) {
        out[i] = t_rank * 1000 + i;
        in[i] = -1;
    }
}

/* The call as it stands, then the same with a request. */
#define RUN(name, iname, condition, ...) \
    do { \
        MPI_Request r_; \
        fresh(); \
        OK(name(__VA_ARGS__, MPI_COMM_WORLD)); \
        CHECK(condition); \
        fresh(); \
        OK(iname(__VA_ARGS__, MPI_COMM_WORLD, &r_)); \
        OK(MPI_Wait(&r_, MPI_STATUS_IGNORE)); \
        CHECK(condition); \
    } while (0)

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    CHECK(t_size <= 64);
    MPI_Count counts[64];
    MPI_Aint places[64], bytes[64];
    MPI_Datatype types[64];
    int last = t_size - 1, sum = t_size * (t_size - 1) / 2 * 1000;
    for (int i = 0; i < t_size; i++) {
        counts[i] = N;
        places[i] = (MPI_Aint)(last - i) * N;
        bytes[i] = places[i] * (MPI_Aint)sizeof(int);
        types[i] = MPI_INT;
    }
    RUN(MPI_Bcast_c, MPI_Ibcast_c, out[1] == last * 1000 + 1, out, N, MPI_INT, last);
    RUN(MPI_Gather_c, MPI_Igather_c, t_rank != last || (in[0] == 0 && in[last * N + 2] == last * 1000 + 2), out, N, MPI_INT, in, N,
        MPI_INT, last);
    RUN(MPI_Gatherv_c, MPI_Igatherv_c, t_rank != 0 || (in[0] == last * 1000 && in[last * N + 2] == 2), out, N, MPI_INT, in, counts, places,
        MPI_INT, 0);
    RUN(MPI_Scatter_c, MPI_Iscatter_c, in[1] == t_rank * N + 1, out, N, MPI_INT, in, N, MPI_INT, 0);
    RUN(MPI_Scatterv_c, MPI_Iscatterv_c, in[1] == (last - t_rank) * N + 1, out, counts, places, MPI_INT, in, N, MPI_INT, 0);
    RUN(MPI_Allgather_c, MPI_Iallgather_c, in[last * N + 3] == last * 1000 + 3, out, N, MPI_INT, in, N, MPI_INT);
    RUN(MPI_Allgatherv_c, MPI_Iallgatherv_c, in[3] == last * 1000 + 3, out, N, MPI_INT, in, counts, places, MPI_INT);
    RUN(MPI_Alltoall_c, MPI_Ialltoall_c, in[last * N + 3] == last * 1000 + t_rank * N + 3, out, N, MPI_INT, in, N, MPI_INT);
    RUN(MPI_Alltoallv_c, MPI_Ialltoallv_c, in[3] == last * 1000 + (last - t_rank) * N + 3, out, counts, places, MPI_INT, in, counts, places,
        MPI_INT);
    RUN(MPI_Alltoallw_c, MPI_Ialltoallw_c, in[3] == last * 1000 + (last - t_rank) * N + 3, out, counts, bytes, types, in, counts, bytes,
        types);
    RUN(MPI_Reduce_c, MPI_Ireduce_c, t_rank != 0 || in[2] == sum + 2 * t_size, out, in, N, MPI_INT, MPI_SUM, 0);
    RUN(MPI_Allreduce_c, MPI_Iallreduce_c, in[2] == sum + 2 * t_size, out, in, N, MPI_INT, MPI_SUM);
    RUN(MPI_Scan_c, MPI_Iscan_c, in[0] == t_rank * (t_rank + 1) / 2 * 1000, out, in, N, MPI_INT, MPI_SUM);
    RUN(MPI_Exscan_c, MPI_Iexscan_c, t_rank == 0 || in[0] == t_rank * (t_rank - 1) / 2 * 1000, out, in, N, MPI_INT, MPI_SUM);
    RUN(MPI_Reduce_scatter_c, MPI_Ireduce_scatter_c, in[1] == sum + t_size * (t_rank * N + 1), out, in, counts, MPI_INT, MPI_SUM);
    RUN(MPI_Reduce_scatter_block_c, MPI_Ireduce_scatter_block_c, in[1] == sum + t_size * (t_rank * N + 1), out, in, N, MPI_INT, MPI_SUM);

    /* A count above 2^31 of a type without data. */
    MPI_Datatype nothing;
    MPI_Count huge = ((MPI_Count)1 << 31) + 7;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    OK(MPI_Bcast_c(out, huge, nothing, 0, MPI_COMM_WORLD));
    OK(MPI_Type_free(&nothing));
    return t_done("coll_large");
}
