/* Messages out of and into memory from MPI_Alloc_mem, in a ring of ranks: short and long ones, one buffer or both from
 * there, the middle of a buffer, collectives, and what is read after the end.
 */
#include "check.h"

enum { LONGEST = (3 << 20) + 1000 };

static const int SIZES[] = {0, 1, 5000, 131072, 131073, 400001, 1 << 20, LONGEST};
enum { COUNT = sizeof SIZES / sizeof *SIZES };

static int right, left;

static unsigned char *memory(int mapped, size_t bytes)
{
    unsigned char *got = NULL;
    if (!mapped)
        return t_alloc(bytes);
    OK(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &got));
    CHECK(got != NULL && ((size_t)got & 15) == 0);
    return got;
}

static void release(int mapped, unsigned char *memory)
{
    if (mapped)
        OK(MPI_Free_mem(memory));
    else
        free(memory);
}

/* `ways`: bit 0, the data come from MPI_Alloc_mem; bit 1, they go there. */
static void around(int ways, unsigned round)
{
    unsigned char *out = memory(ways & 1, LONGEST + 64), *in = memory(ways >> 1, LONGEST + 64);
    for (int i = 0; i < COUNT; i++) {
        int bytes = SIZES[i], got;
        size_t skew = (size_t)(i * 7 % 64);
        MPI_Request requests[2];
        MPI_Status statuses[2];
        t_fill(out + skew, T_PLAIN, (size_t)bytes, (unsigned)t_rank, round + (unsigned)i);
        memset(in, 0x5A, LONGEST + 64);
        if (i % 2) /* the receive is late on some ranks */
            OK(MPI_Irecv(in, LONGEST, MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Isend(out + skew, bytes, MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[1]));
        if (!(i % 2))
            OK(MPI_Irecv(in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Waitall(2, requests, statuses));
        OK(MPI_Get_count(&statuses[0], MPI_BYTE, &got));
        SAME(got, bytes);
        VERIFY(in, T_PLAIN, (size_t)bytes, (unsigned)left, round + (unsigned)i);
        CHECK(in[bytes] == 0x5A);
    }
    release(ways & 1, out);
    release(ways >> 1, in);
}

static void collectives(void)
{
    enum { N = 100000 };
    int *mine = NULL, *sum = NULL;
    OK(MPI_Alloc_mem(N * sizeof *mine, MPI_INFO_NULL, &mine));
    OK(MPI_Alloc_mem(N * sizeof *sum, MPI_INFO_NULL, &sum));
    for (int i = 0; i < N; i++)
        mine[i] = i + t_rank;
    OK(MPI_Allreduce(mine, sum, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < N; i++)
        CHECK(sum[i] == t_size * i + t_size * (t_size - 1) / 2);
    OK(MPI_Bcast(mine, N, MPI_INT, t_size - 1, MPI_COMM_WORLD));
    for (int i = 0; i < N; i++)
        CHECK(mine[i] == i + t_size - 1);
    OK(MPI_Free_mem(mine));
    OK(MPI_Free_mem(sum));
}

int main(int argc, char **argv)
{
    int *kept = NULL;
    t_init(&argc, &argv);
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    for (int ways = 0; ways < 4; ways++)
        around(ways, (unsigned)ways * 100);
    collectives();
    OK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &kept));
    kept[100000] = t_rank + 1;
    int rank = t_rank, end = t_done("p2p_mapped");
    /* What was not given back can be read after MPI has ended. */
    return kept[100000] == rank + 1 ? end : 1;
}
