/* A program that is wrong: the ranks call a blocking collective with lengths that don't fit together, with errors returned. Who can notice
 * gets MPI_ERR_TRUNCATE, nobody waits for ever, nothing is written beyond a buffer, and communicators that have nothing to do with it go on.
 * The standard promises none of this.
 */
#include "check.h"

enum { GUARD = 64 };

struct buffer {
    unsigned char *at;
    size_t bytes;
};

static struct buffer buffer(size_t bytes)
{
    struct buffer b = {t_alloc(bytes + GUARD), bytes};
    memset(b.at, 1 + t_rank, bytes);
    memset(b.at + bytes, 0xA5, GUARD);
    return b;
}

static void release(struct buffer b)
{
    for (size_t i = 0; i < GUARD; i++)
        SAME(b.at[b.bytes + i], 0xA5);
    free(b.at);
}

enum kind { BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, SCAN, KINDS };

static int call(enum kind kind, MPI_Comm comm, void *out, void *in, int bytes)
{
    int root = t_size - 1;
    switch (kind) {
    case BCAST: return MPI_Bcast(out, bytes, MPI_BYTE, root, comm);
    case REDUCE: return MPI_Reduce(out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BOR, root, comm);
    case ALLREDUCE: return MPI_Allreduce(out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BOR, comm);
    case GATHER: return MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, comm);
    case SCATTER: return MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, comm);
    case ALLGATHER: return MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
    case ALLTOALL: return MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, comm);
    case SCAN: return MPI_Scan(out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BOR, comm);
    case KINDS: break;
    }
    abort();
}

/* Success, or the one error that this may be. */
static int truncated(int code)
{
    if (code == MPI_SUCCESS)
        return 0;
    SAME(t_class(code), MPI_ERR_TRUNCATE);
    return 1;
}

/* One collective in which the last rank has another length than all others. */
static void once(enum kind kind, int bytes, int last)
{
    MPI_Comm comm, before;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(comm, &before));
    OK(MPI_Barrier(comm));
    OK(MPI_Barrier(comm));

    int mine = t_rank == t_size - 1 ? last : bytes;
    struct buffer out = buffer((size_t)mine * (size_t)t_size), in = buffer((size_t)mine * (size_t)t_size);
    int noticed = truncated(call(kind, comm, out.at, in.at, mine));
    /* Who was told that the communicator is no good is told so again; who was not may go on or be told now. */
    int again = truncated(MPI_Barrier(comm));
    CHECK(!noticed || again);
    release(out);
    release(in);

    int any = 0;
    OK(MPI_Allreduce(&again, &any, 1, MPI_INT, MPI_LOR, before));
    if (!any)
        t_fail(__FILE__, __LINE__, "kind %d: nobody noticed %d and %d bytes", kind, bytes, last);
    OK(MPI_Barrier(before));
    OK(MPI_Comm_free(&before));
    OK(MPI_Comm_free(&comm));
}

/* The same as the first collective of a communicator of three or more: it goes by messages, of which some are longer than who gets them expects. */
static void first(enum kind kind, int bytes, int last)
{
    if (t_size < 3)
        return;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int mine = t_rank == t_size - 1 ? last : bytes;
    struct buffer out = buffer((size_t)mine), in = buffer((size_t)mine);
    int noticed = truncated(call(kind, comm, out.at, in.at, mine)), any = 0;
    release(out);
    release(in);
    OK(MPI_Allreduce(&noticed, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    if (!any)
        t_fail(__FILE__, __LINE__, "kind %d: nobody noticed %d and %d bytes in a communicator's first", kind, bytes, last);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    /* Short and long, in one chunk and in several, read where they lie or not: fewer than there are places to share, as each spoils one. */
    static const int lengths[][2] = {{0, 8},         {8, 4000},       {4000, 8},    {20000, 10000},
                                     {70000, 600000}, {600000, 70000}, {600000, 100}};
    /* Where who has more goes by messages: as many bytes as a word has, and two that both do. */
    static const struct {
        enum kind kind;
        int bytes, last;
    } others[] = {{BCAST, 8, 600000}, {BCAST, 600000, 8}, {BCAST, 600000, 1000000}, {ALLREDUCE, 600000, 1000000}};
    t_init(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            once((enum kind)kind, lengths[i][0], lengths[i][1]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        once(others[i].kind, others[i].bytes, others[i].last);
    for (int more = 0; more < 2; more++) {
        first(REDUCE, more ? 500000 : 1000000, more ? 1000000 : 500000);
        first(ALLREDUCE, more ? 500000 : 1000000, more ? 1000000 : 500000);
    }
    return t_done("coll_mismatch");
}
