/* Collectives to which a rank only gives: it has sent all before its call returns, or a part, or nothing, by how much room there is. Many are under way while nobody
 * receives; then all wait, in another order. What was given may be written over as soon as the giver's wait is over.
 *
 * With an argument each rank of a broadcast has its data in a layout of its own. Other libraries cut long ones by elements and not by bytes: MPICH then waits for ever,
 * Open MPI truncates.
 */
#include "check.h"

enum { UNDER_WAY = 200, KINDS = 3 };

static int own_layouts;

/* By turns MPI_Ibcast, in all layouts, MPI_Iscatter and MPI_Igather. */
struct turn {
    int number, kind, root, layout;
    size_t bytes;
    unsigned char *out, *in;
    MPI_Datatype type;
    MPI_Comm comm;
};

/* Bytes of a turn's blocks: none, a cell's, a sheet's, a shelf's, what a pipe holds, and now and then more, which may be lent. */
static size_t bytes_of(int turn)
{
    static const size_t some[] = {0, 1, 8, 48, 49, 500, 2049, 12000, 12289, 40000, 65536, 131072};
    return turn % 50 == 48 ? 1100000 : turn % 50 == 49 ? 200001 : some[turn % 12];
}

static unsigned char *cleared(size_t bytes)
{
    unsigned char *memory = t_alloc(bytes + 1);
    memset(memory, 0x5A, bytes + 1);
    return memory;
}

static void begin(struct turn *t, int number, MPI_Comm comm, MPI_Request *request)
{
    int count, bytes;
    size_t all;
    /* A communicator may be freed before what is under way on it is over. */
    t->comm = comm;
    if (number % 20 == 7)
        OK(MPI_Comm_dup(comm, &t->comm));
    t->number = number;
    t->bytes = bytes_of(number);
    t->kind = number % KINDS;
    t->root = number / KINDS % t_size;
    t->layout = t->kind == 0 ? (number / KINDS + own_layouts * t_rank) % T_LAYOUTS : T_PLAIN;
    t->type = t_type(t->layout, t->bytes, &count);
    bytes = (int)t->bytes;
    all = t->bytes * (size_t)t_size;
    t->out = cleared(all);
    t->in = cleared(t->kind == 0 ? t_span(t->layout, t->bytes) : all);
    if (t->kind == 0) {
        if (t_rank == t->root)
            t_fill(t->in, t->layout, t->bytes, 0, (unsigned)number);
        OK(MPI_Ibcast(t->in, count, t->type, t->root, t->comm, request));
    } else if (t->kind == 1) {
        for (int r = 0; t_rank == t->root && r < t_size; r++)
            t_fill(t->out + t->bytes * (size_t)r, T_PLAIN, t->bytes, (unsigned)r, (unsigned)number);
        OK(MPI_Iscatter(t->out, bytes, MPI_BYTE, t->in, bytes, MPI_BYTE, t->root, t->comm, request));
    } else {
        t_fill(t->out, T_PLAIN, t->bytes, (unsigned)t_rank, (unsigned)number);
        OK(MPI_Igather(t->out, bytes, MPI_BYTE, t->in, bytes, MPI_BYTE, t->root, t->comm, request));
    }
    if (t->comm != comm)
        OK(MPI_Comm_free(&t->comm));
}

static void end(struct turn *t)
{
    unsigned number = (unsigned)t->number;
    memset(t->out, 0x33, t->bytes * (size_t)t_size);
    if (t->kind == 0 && t_rank == t->root)
        memset(t->in, 0x33, t_span(t->layout, t->bytes));
    else if (t->kind == 0)
        VERIFY(t->in, t->layout, t->bytes, 0, number);
    else if (t->kind == 1)
        VERIFY(t->in, T_PLAIN, t->bytes, (unsigned)t_rank, number);
    for (int r = 0; t->kind == 2 && t_rank == t->root && r < t_size; r++)
        for (size_t i = 0; i < t->bytes; i++)
            SAME(t->in[t->bytes * (size_t)r + i], t_byte((unsigned)r, number, i));
    OK(MPI_Type_free(&t->type));
    free(t->out);
    free(t->in);
}

/* The ends of all turns, as the calls of a round hear of them. */
static void end_all(struct turn *turns, MPI_Request *requests, int round)
{
    static int over[UNDER_WAY];
    int ended = 0, flag, some, which;
    MPI_Status status;
    if (round == 0)
        for (int i = UNDER_WAY - 1; i >= 0; i--) {
            OK(MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[i], &status));
            CHECK(requests[i] == MPI_REQUEST_NULL);
            end(&turns[i]);
        }
    while (round == 1 && ended < UNDER_WAY) {
        OK(MPI_Waitsome(UNDER_WAY, requests, &some, over, MPI_STATUSES_IGNORE));
        CHECK(some > 0);
        for (int i = 0; i < some; i++)
            end(&turns[over[i]]);
        ended += some;
    }
    for (; round == 2 && ended < UNDER_WAY; ended++) {
        OK(MPI_Waitany(UNDER_WAY, requests, &which, &status));
        CHECK(which != MPI_UNDEFINED);
        end(&turns[which]);
    }
    for (int i = 0; i < UNDER_WAY; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv)
{
    static struct turn turns[UNDER_WAY];
    static MPI_Request requests[UNDER_WAY];
    t_init(&argc, &argv);
    own_layouts = argc > 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < UNDER_WAY; i++)
            begin(&turns[i], round * UNDER_WAY + i, MPI_COMM_WORLD, &requests[i]);
        if (t_rank % 2)
            t_sleep_ms(20);
        end_all(turns, requests, round);
    }
    return t_done("coll_gives");
}
