/* Alltoalls of long blocks, again and again with the same memory: two ranks may write them to where the other wants them, and go through them from the end to the beginning
 * every other time; where one rank only has gaps, or all have, in what it sends or receives, they may not. Gaps and what lies behind are left alone.
 */
#include "check.h"

enum { TIMES = 4 };

static unsigned datum(int turn, int from, int to, int i)
{
    return (unsigned)turn * 7919u + (unsigned)from * 1000003u + (unsigned)to * 10007u + (unsigned)i * 17u;
}

/* n elements, each with as many behind it that are none. */
static MPI_Datatype gapped(int n)
{
    MPI_Datatype vector, block;
    OK(MPI_Type_vector(n, 1, 2, MPI_UNSIGNED, &vector));
    OK(MPI_Type_create_resized(vector, 0, (MPI_Aint)n * 8, &block));
    OK(MPI_Type_commit(&block));
    OK(MPI_Type_free(&vector));
    return block;
}

/* Where element i of a rank's block lies. */
static size_t place(int n, int rank, int i, int gaps)
{
    size_t at = (size_t)rank * (size_t)n + (size_t)i;
    return gaps ? 2 * at : at;
}

static void once(int n, int turn, int out_gaps, int in_gaps, int in_place, unsigned *out, unsigned *in)
{
    size_t all = (size_t)n * (size_t)t_size, out_all = out_gaps ? 2 * all : all, in_all = in_gaps ? 2 * all : all;
    MPI_Datatype out_type = out_gaps ? gapped(n) : MPI_UNSIGNED, in_type = in_gaps ? gapped(n) : MPI_UNSIGNED;
    unsigned *filled = in_place ? in : out;
    int filled_gaps = in_place ? in_gaps : out_gaps;
    memset(in, 0x55, in_all * 4);
    memset(out, 0x33, out_all * 4);
    for (int r = 0; r < t_size; r++)
        for (int i = 0; i < n; i++)
            filled[place(n, r, i, filled_gaps)] = datum(turn, t_rank, r, i);
    OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : out, out_gaps ? 1 : n, out_type, in, in_gaps ? 1 : n, in_type, MPI_COMM_WORLD));
    for (int r = 0; r < t_size; r++)
        for (int i = 0; i < n; i++) {
            SAME(in[place(n, r, i, in_gaps)], datum(turn, r, t_rank, i));
            if (in_gaps)
                SAME(in[place(n, r, i, 1) + 1], 0x55555555u);
            if (!in_place)
                SAME(out[place(n, r, i, out_gaps)], datum(turn, t_rank, r, i));
        }
    SAME(in[in_all], 0x77777777u);
    if (out_gaps)
        OK(MPI_Type_free(&out_type));
    if (in_gaps)
        OK(MPI_Type_free(&in_type));
}

int main(int argc, char **argv)
{
    /* Elements of four bytes: blocks on both sides of 512 KiB and 1 MiB, one that is no multiple of any piece, and of two ranks, as more have no way of their own there, on both
     * sides of 8 MiB. */
    static const int sizes[] = {131071, 131072, 262143, 262144, 300001, 2097151, 2097152, 2097153};
    t_init(&argc, &argv);
    int turn = 0, odd = t_rank % 2;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        if (n > 300001 && t_size != 2)
            break;
        size_t most = (size_t)n * (size_t)t_size * 2;
        unsigned *out = t_alloc((most + 1) * 4), *in = t_alloc((most + 1) * 4);
        for (int kind = 0; kind < 5; kind++)
            for (int time = 0; time < TIMES; time++, turn++) {
                int in_gaps = kind == 1 ? odd : kind == 2, out_gaps = kind == 3 ? !odd : kind == 2;
                in[(size_t)n * (size_t)t_size * (in_gaps ? 2 : 1)] = 0x77777777u;
                once(n, turn, out_gaps, in_gaps, kind == 4, out, in);
            }
        free(out);
        free(in);
    }
    return t_done("alltoall_long");
}
