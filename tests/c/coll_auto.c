/* Where collectives run when that is chosen for each (YAMABIKO_CAD=auto), by MPI_T's counters: at all ranks alike, and with
 * the right results.
 *
 * Argument "hosts": the ranks are on two hosts, at least four in all, each with a processor of its own; long collectives that move data run in the ring, all others in
 * calls. Without one: all run in calls. "refused": rank 1 must not use io_uring, "threads": rank 1 asks for MPI_THREAD_MULTIPLE, "unset": nothing is chosen (there is no such variable); so all
 * run in calls.
 */
#include "coll.h"
#include "counters.h"
#include "refuse.h"

enum { LONG = 300000, MIDDLE = 20000, SHORT = 100, ROUNDS = 3, COMMS = 12, KEPT = 12 };

static int apart;

/* So many more have run in the ring, and so many in calls, since this was asked last; at all ranks. */
static void ran(int ring, int calls, int line)
{
    static unsigned long long seen[2];
    unsigned long long now[2] = {counted("yamabiko_collectives_ring"), counted("yamabiko_collectives_inline")};
    if (!apart)
        calls += ring, ring = 0;
    if (now[0] - seen[0] != (unsigned)ring || now[1] - seen[1] != (unsigned)calls)
        t_fail(__FILE__, line, "%llu ran in the ring and %llu in calls, not %d and %d", now[0] - seen[0], now[1] - seen[1], ring, calls);
    memcpy(seen, now, sizeof seen);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

#define RAN(ring, calls) ran(ring, calls, __LINE__)

static void wait(MPI_Request *r)
{
    OK(MPI_Wait(r, MPI_STATUS_IGNORE));
}

/* A broadcast of n integers, which are of a type with gaps at odd ranks if n is a multiple of three. */
static void broadcast(MPI_Comm comm, int n, int root)
{
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    Shape s = shape_of(n % 3 == 0 ? MIXED : DENSE, rank);
    int *data = ints(room(s, (size_t)n));
    MPI_Request r;
    for (int i = 0; i < n; i++)
        data[place(s, (size_t)i)] = rank == root ? root + i : -1;
    OK(MPI_Ibcast(data, units(s, n), s.type, root, comm, &r));
    wait(&r);
    for (int i = 0; i < n; i++)
        SAME(data[place(s, (size_t)i)], root + i);
    free(data);
}

/* Blocks of n integers go from all to all, and to all. */
static void blocks(int n)
{
    int *in = ints((size_t)n * (size_t)t_size), *out = ints((size_t)n * (size_t)t_size);
    MPI_Request r[2];
    for (int i = 0; i < n * t_size; i++)
        in[i] = t_rank * 1000 + i / n;
    OK(MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, MPI_COMM_WORLD, &r[0]));
    wait(&r[0]);
    for (int i = 0; i < n * t_size; i++)
        SAME(out[i], i / n * 1000 + t_rank);
    OK(MPI_Iallgather(in, n, MPI_INT, out, n, MPI_INT, MPI_COMM_WORLD, &r[1]));
    wait(&r[1]);
    for (int i = 0; i < n * t_size; i++)
        SAME(out[i], i / n * 1000);
    free(in), free(out);
}

/* Reductions, and what has a count for each rank. */
static void others(void)
{
    int *in = ints(LONG), *out = ints(LONG), *counts = ints((size_t)t_size), *places = ints((size_t)t_size);
    MPI_Request r;
    for (int i = 0; i < LONG; i++)
        in[i] = t_rank;
    for (int i = 0; i < t_size; i++)
        counts[i] = LONG / t_size, places[i] = i * (LONG / t_size);
    OK(MPI_Iallreduce(in, out, LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
    wait(&r);
    SAME(out[LONG - 1], t_size * (t_size - 1) / 2);
    OK(MPI_Iallgatherv(in, counts[0], MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD, &r));
    wait(&r);
    SAME(out[places[t_size - 1]], t_size - 1);
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &r));
    wait(&r);
    free(in), free(out), free(counts), free(places);
}

/* Persistent ones: the first few of a communicator go to the ring. */
static void kept(void)
{
    static int data[KEPT][LONG];
    MPI_Request r[KEPT];
    for (int k = 0; k < KEPT; k++)
        OK(MPI_Bcast_init(data[k], LONG, MPI_INT, k % t_size, MPI_COMM_WORLD, MPI_INFO_NULL, &r[k]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < KEPT; k++)
            data[k][LONG - 1] = t_rank == k % t_size ? round : -1;
        OK(MPI_Startall(KEPT, r));
        OK(MPI_Waitall(KEPT, r, MPI_STATUSES_IGNORE));
        for (int k = 0; k < KEPT; k++)
            SAME(data[k][LONG - 1], round);
    }
    for (int k = 0; k < KEPT; k++)
        OK(MPI_Request_free(&r[k]));
    RAN(8 * ROUNDS, (KEPT - 8) * ROUNDS);
}

/* Communicators: inside a host, and more than use the ring. */
static void communicators(void)
{
    MPI_Comm here, more[COMMS];
    int size, rank;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
    OK(MPI_Comm_size(here, &size));
    broadcast(here, LONG, size - 1);
    RAN(0, 1);
    for (int i = 0; i < COMMS; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &more[i]));
    for (int i = 0; i < COMMS; i++)
        broadcast(more[i], LONG, 0);
    /* The numbers 3 to 7 are rank 0's first, of which one is that of its host's. */
    RAN(4, COMMS - 4);
    OK(MPI_Comm_rank(here, &rank));
    for (int i = 0; i < COMMS; i++)
        OK(MPI_Comm_free(&more[i]));
    OK(MPI_Comm_free(&here));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    const char *me = getenv("PMI_RANK");
    int second = me != NULL && strcmp(me, "1") == 0, provided;
    apart = strcmp(how, "hosts") == 0;
    if (strcmp(how, "refused") == 0 && second)
        refuse_io_uring();
    if (strcmp(how, "threads") == 0 && second)
        OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    else
        OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    coll_types();
    for (int round = 0; round < ROUNDS; round++) {
        broadcast(MPI_COMM_WORLD, SHORT, round % t_size);
        RAN(0, 1);
        broadcast(MPI_COMM_WORLD, MIDDLE, round % t_size);
        RAN(1, 0);
        broadcast(MPI_COMM_WORLD, LONG, round % t_size);
        RAN(1, 0);
        blocks(SHORT);
        RAN(0, 2);
        blocks(MIDDLE);
        RAN(1, 1);
        others();
        RAN(0, 3);
    }
    blocks(LONG);
    RAN(2, 0);
    kept();
    communicators();
    OK(MPI_Type_free(&gaps_type));
    return t_done("coll_auto");
}
