/* Long reductions for all, several under way at once: every rank gets the operands combined in the order of ranks, bit for bit, whatever segments
 * they go in, from a buffer of their own or in place, non-blocking and persistent.
 *
 * The operands of the operation of the program's do not commute; those of MPI_SUM are whole numbers; MPI_MINLOC's values are often equal, so the
 * lowest rank's has to win. */
#include "check.h"

enum { AT_ONCE = 3, STARTS = 3 };

/* x -> a * x + b, modulo 2^32. */
typedef struct {
    unsigned a, b;
} Affine;

typedef struct {
    double value;
    int place;
} Least;

typedef struct {
    int value, place;
} LeastInt;

typedef enum { SUM, AFFINE, LEAST, LEAST_INT, KINDS } Kind;

static MPI_Datatype types[KINDS];
static MPI_Op ops[KINDS];
static const size_t sizes[KINDS] = {sizeof(double), sizeof(Affine), sizeof(Least), sizeof(LeastInt)};

static Affine after(Affine first, Affine second)
{
    return (Affine){first.a * second.a, first.b * second.a + second.b};
}

static void chain(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((Affine *)inout)[i] = after(((Affine *)in)[i], ((Affine *)inout)[i]);
}

static void operand(Kind kind, int rank, int i, void *to)
{
    if (kind == SUM)
        *(double *)to = rank * 1000 + i % 911;
    else if (kind == AFFINE)
        *(Affine *)to = (Affine){2 * (unsigned)(rank + i) + 1, (unsigned)(7 * rank + i)};
    else if (kind == LEAST)
        *(Least *)to = (Least){(rank + i) % 2, rank};
    else
        *(LeastInt *)to = (LeastInt){(rank + i) % 2, rank};
}

static int is_right(Kind kind, int i, const void *got)
{
    union {
        double sum;
        Affine affine;
        Least least;
        LeastInt least_int;
    } all, next;
    operand(kind, 0, i, &all);
    for (int rank = 1; rank < t_size; rank++) {
        operand(kind, rank, i, &next);
        if (kind == SUM)
            all.sum += next.sum;
        else if (kind == AFFINE)
            all.affine = after(all.affine, next.affine);
        else if (kind == LEAST && next.least.value < all.least.value)
            all.least = next.least;
        else if (kind == LEAST_INT && next.least_int.value < all.least_int.value)
            all.least_int = next.least_int;
    }
    if (kind == SUM)
        return *(const double *)got == all.sum;
    if (kind == AFFINE)
        return ((const Affine *)got)->a == all.affine.a && ((const Affine *)got)->b == all.affine.b;
    if (kind == LEAST)
        return ((const Least *)got)->value == all.least.value && ((const Least *)got)->place == all.least.place;
    return ((const LeastInt *)got)->value == all.least_int.value && ((const LeastInt *)got)->place == all.least_int.place;
}

static void fill(Kind kind, int count, char *to)
{
    for (int i = 0; i < count; i++)
        operand(kind, t_rank, i, to + (size_t)i * sizes[kind]);
}

/* Several at once, each a little longer than the one before. */
static void at_once(Kind kind, int least, int in_place, int persistent)
{
    char *out[AT_ONCE], *in[AT_ONCE];
    MPI_Request requests[AT_ONCE];
    for (int n = 0; n < AT_ONCE; n++) {
        size_t bytes = (size_t)(least + n) * sizes[kind];
        CHECK((out[n] = calloc(1, bytes)) && (in[n] = calloc(1, bytes)));
        fill(kind, least + n, out[n]);
        if (persistent)
            OK(MPI_Allreduce_init(in_place ? MPI_IN_PLACE : out[n], in[n], least + n, types[kind], ops[kind], MPI_COMM_WORLD,
                                  MPI_INFO_NULL, &requests[n]));
    }
    for (int start = 0; start < (persistent ? STARTS : 1); start++) {
        for (int n = 0; n < AT_ONCE; n++) {
            if (in_place)
                fill(kind, least + n, in[n]);
            if (!persistent)
                OK(MPI_Iallreduce(in_place ? MPI_IN_PLACE : out[n], in[n], least + n, types[kind], ops[kind], MPI_COMM_WORLD,
                                  &requests[n]));
        }
        if (persistent)
            OK(MPI_Startall(AT_ONCE, requests));
        OK(MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE));
        for (int n = 0; n < AT_ONCE; n++) {
            int right = 1;
            for (int i = 0; i < least + n && right; i++)
                right = is_right(kind, i, in[n] + (size_t)i * sizes[kind]);
            CHECK(right);
            memset(in[n], 0xa5, (size_t)(least + n) * sizes[kind]);
        }
    }
    for (int n = 0; n < AT_ONCE; n++) {
        if (persistent)
            OK(MPI_Request_free(&requests[n]));
        free(out[n]);
        free(in[n]);
    }
}

int main(int argc, char **argv)
{
    const int bytes[] = {1, 2048, 40000, 131072, 262144, 500000, 1300000};
    t_init(&argc, &argv);
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &types[AFFINE]));
    OK(MPI_Type_commit(&types[AFFINE]));
    OK(MPI_Op_create(chain, 0, &ops[AFFINE]));
    types[SUM] = MPI_DOUBLE, ops[SUM] = MPI_SUM;
    types[LEAST] = MPI_DOUBLE_INT, ops[LEAST] = MPI_MINLOC;
    types[LEAST_INT] = MPI_2INT, ops[LEAST_INT] = MPI_MINLOC;
    for (size_t length = 0; length < sizeof bytes / sizeof *bytes; length++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int how = 0; how < 4; how++)
                at_once((Kind)kind, bytes[length] / (int)sizes[kind] + 1, how & 1, how >> 1);
    OK(MPI_Op_free(&ops[AFFINE]));
    OK(MPI_Type_free(&types[AFFINE]));
    return t_done("coll_segments");
}
