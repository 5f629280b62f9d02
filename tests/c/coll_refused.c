/* Blocking collectives whose data the kernel copies between processes, until it is forbidden to: nobody may be told that all is well whose data are not.
 *
 * Arguments: what is refused in the middle (write, read or memory, which is both) and from which rank on (default 0: to all). Before that the kernel has to have
 * copied, if a plain program of this machine may have it do so.
 */
#include "check.h"
#include "refuse.h"
#include <sys/uio.h>
#include <unistd.h>

static MPI_Comm comm;
static unsigned turn;

/* Whether all share memory, and may read and write each other, as a plain program finds out. */
static int open_to_all(void)
{
    static long word = 42;
    struct { long pid; long *at; } mine = {getpid(), &word}, all[64];
    int open, of_all;
    long found = 0;
    MPI_Comm node;
    int near;
    CHECK(t_size <= 64);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_size(node, &near));
    OK(MPI_Comm_free(&node));
    open = near == t_size && getenv("YAMABIKO_FABRICS") == NULL;
    OK(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD));
    for (int r = 0; r < t_size; r++) {
        struct iovec here = {&found, sizeof found}, there = {all[r].at, sizeof word};
        open = open && process_vm_readv((pid_t)all[r].pid, &here, 1, &there, 1, 0) == sizeof found;
        open = open && process_vm_writev((pid_t)all[r].pid, &here, 1, &there, 1, 0) == sizeof found;
    }
    OK(MPI_Allreduce(&open, &of_all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    return of_all;
}

/* Collectives in which the kernel has copied, as this process counts them. */
static unsigned long long copied(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    int index, n, provided;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_get_index("yamabiko_collectives_copied", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &n));
    OK(MPI_T_pvar_read(session, handle, &value));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return value;
}

static unsigned datum(int rank, int i)
{
    return (unsigned)rank * 1000003u + (unsigned)i * 17u + turn * 7919u;
}

static unsigned sum(int i)
{
    unsigned all = 0;
    for (int r = 0; r < t_size; r++)
        all += datum(r, i);
    return all;
}

/* What a call came to: its data, where it says that they are there. `never`: and it may not fail. */
static void see(const char *what, int code, int never, int n, const unsigned *got, unsigned (*want)(int))
{
    if (code != MPI_SUCCESS && !never)
        return;
    t_call(__FILE__, __LINE__, what, code);
    for (int i = 0; got && i < n; i++)
        if (got[i] != want(i))
            t_fail(__FILE__, __LINE__, "%s of %d: element %d is %u, not %u", what, n, i, got[i], want(i));
}

static int root, each;

static unsigned of_root(int i) { return datum(root, i); }
static unsigned of_blocks(int i) { return datum(i / each, i % each); }
static unsigned for_me(int i) { return datum(i / each, t_rank * each + i % each); }

static void fill(unsigned *to, int rank, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = datum(rank, i);
}

enum { BCAST, REDUCE, REDUCE_IN_PLACE, ALLREDUCE, ALLREDUCE_IN_PLACE, ALLGATHER, ALLGATHER_IN_PLACE, ALLTOALL, ALLTOALL_IN_PLACE, KINDS };

/* A collective of n elements, or blocks of so many. Not `strict`: where data were overwritten before something was refused, the call may fail. */
static void one(int kind, int n, int from, int strict)
{
    int total = n * t_size, here = t_rank == from;
    unsigned *out = t_alloc((size_t)total * 4), *in = t_alloc((size_t)total * 4);
    each = n;
    root = from;
    turn++;
    fill(out, t_rank, total);
    memset(in, 0x55, (size_t)total * 4);
    switch (kind) {
    case BCAST:
        if (here)
            fill(in, t_rank, n);
        see("bcast", MPI_Bcast(in, n, MPI_UNSIGNED, root, comm), 1, n, in, of_root);
        break;
    case REDUCE:
        see("reduce", MPI_Reduce(out, in, n, MPI_UNSIGNED, MPI_SUM, root, comm), 1, n, here ? in : NULL, sum);
        break;
    case REDUCE_IN_PLACE:
        fill(in, t_rank, n);
        see("reduce in place", MPI_Reduce(here ? MPI_IN_PLACE : out, here ? in : NULL, n, MPI_UNSIGNED, MPI_SUM, root, comm), strict, n,
            here ? in : NULL, sum);
        break;
    case ALLREDUCE:
        see("allreduce", MPI_Allreduce(out, in, n, MPI_UNSIGNED, MPI_SUM, comm), 1, n, in, sum);
        break;
    case ALLREDUCE_IN_PLACE:
        fill(in, t_rank, n);
        see("allreduce in place", MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_UNSIGNED, MPI_SUM, comm), strict, n, in, sum);
        break;
    case ALLGATHER:
        see("allgather", MPI_Allgather(out, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, comm), 1, total, in, of_blocks);
        break;
    case ALLGATHER_IN_PLACE:
        fill(in + t_rank * n, t_rank, n);
        see("allgather in place", MPI_Allgather(MPI_IN_PLACE, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, comm), 1, total, in, of_blocks);
        break;
    case ALLTOALL:
        see("alltoall", MPI_Alltoall(out, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, comm), 1, total, in, for_me);
        break;
    default:
        fill(in, t_rank, total);
        see("alltoall in place", MPI_Alltoall(MPI_IN_PLACE, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, comm), strict, total, in, for_me);
    }
    free(out);
    free(in);
}

static void all_of(int n)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int from = 0; from < t_size; from++)
            one(kind, n, from, 1);
}

/* A communicator on which the kernel copies: from its second blocking collective on. */
static void make(void)
{
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 100; i++)
        OK(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8192, 16384, 98304, 131072, 300001};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    t_init(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "memory";
    int from = argc > 2 ? atoi(argv[2]) : 0;
    int write = strcmp(what, "read") != 0, read = strcmp(what, "write") != 0;
    int open = open_to_all();
    MPI_Comm older[SIZES][KINDS];
    for (int i = 0; i < SIZES; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            make();
            older[i][kind] = comm;
            one(kind, sizes[i], 0, 1);
        }
    all_of(sizes[SIZES - 1]);
    CHECK(!open || t_size == 1 || copied() > 0);
    if (t_rank >= from)
        refuse_copies(write, read);
    /* Each meets that on a communicator that knows nothing of it yet, and then the others do on one that does. */
    for (int i = 0; i < SIZES; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            comm = older[i][kind];
            one(kind, sizes[i], t_size - 1, 0);
            all_of(8192);
            all_of(sizes[i]);
            OK(MPI_Comm_free(&comm));
        }
    make();
    all_of(sizes[SIZES - 1]);
    OK(MPI_Comm_free(&comm));
    return t_done("coll_refused");
}
