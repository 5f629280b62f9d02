/* The same collective again and again, of communicators, types and operations that come and go: what one ran with may serve the next that looks like it. Every
 * communicator's identifier comes more than once.
 */
#include "check.h"

enum { COMMS = 20000, TYPES = 3000, ELEMENTS = 4, BLOCK = 3, PLACES = 5, EXTENT = 16 };

/* A communicator is freed when its collective is over, or while it is under way. */
static void of_communicators(void)
{
    for (int i = 0; i < COMMS; i++) {
        int mine = i + t_rank, sum = -1, early = i % 3 == 0;
        MPI_Comm comm;
        MPI_Request request;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request));
        if (early)
            OK(MPI_Comm_free(&comm));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sum == t_size * i + t_size * (t_size - 1) / 2);
        if (!early)
            OK(MPI_Comm_free(&comm));
    }
}

static int place; /* where in an element its integers begin */
static int times; /* what the operation multiplies a sum by */

static void combine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *a = in, *b = inout;
    (void)type;
    for (int e = 0; e < *count; e++)
        for (int i = 0; i < BLOCK; i++)
            b[e * EXTENT + place + i] = times * (a[e * EXTENT + place + i] + b[e * EXTENT + place + i]);
}

/* Types of the same size and extent, whose integers begin elsewhere in each, and operations that do other things. */
static void of_types_and_operations(void)
{
    static int mine[ELEMENTS * EXTENT], result[ELEMENTS * EXTENT];
    for (int turn = 0; turn < TYPES; turn++) {
        int at, expected;
        MPI_Datatype block, type;
        MPI_Op op;
        MPI_Request request;
        place = turn * 2 % PLACES;
        times = t_size <= 2 ? 1 + turn % 3 : 1;
        at = place * (int)sizeof(int);
        OK(MPI_Type_create_indexed_block(1, BLOCK, &place, MPI_INT, &block));
        OK(MPI_Type_create_resized(block, 0, EXTENT * sizeof(int), &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Op_create(combine, 1, &op));
        for (int i = 0; i < ELEMENTS * EXTENT; i++) {
            mine[i] = turn + t_rank + i;
            result[i] = -1;
        }
        OK(MPI_Iallreduce(mine, result, ELEMENTS, type, op, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < ELEMENTS * EXTENT; i++) {
            int in = i % EXTENT * (int)sizeof(int);
            expected = t_size == 1 ? turn + i : times * (t_size * (turn + i) + t_size * (t_size - 1) / 2);
            if (in < at || in >= at + BLOCK * (int)sizeof(int))
                expected = -1;
            CHECK(result[i] == expected);
        }
        OK(MPI_Op_free(&op));
        OK(MPI_Type_free(&type));
        OK(MPI_Type_free(&block));
    }
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    of_communicators();
    of_types_and_operations();
    return t_done("coll_again");
}
