/* Small non-blocking collectives that may run in the kernel's receive path (YAMABIKO_CAD=softirq), against the blocking ones, which don't:
 * all types and operations, several under way on several communicators, such as don't fit among them.
 *
 * Argument "kernel": with a kaccd of its own. "killed": that is killed in the middle. "lost": a rank is. "kept": only such as run there, among
 * them persistent ones and those of MPI_Comm_idup. "asleep": ranks sleep until a late one comes. "computing": they compute, for the test
 * that loses packets. "ring": they run in chains of the ring (YAMABIKO_CAD=ring), where kaccd's other program reduces. Without one: there is no kaccd. Where YAMABIKO_KACCD has
 * the name of one, there is none of its own.
 */
#include "counters.h"
#include "kaccd.h"

enum { MOST = 1024, COMMS = 3, DEPTH = 5 };

static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
static unsigned round_number;

/* Elements whose results are exact: small numbers, for the floating-point types. */
static void fill(void *data, MPI_Datatype type, int n)
{
    int size;
    OK(MPI_Type_size(type, &size));
    for (int i = 0; i < n * size; i++)
        ((unsigned char *)data)[i] = t_byte((unsigned)t_rank, round_number, (size_t)i);
    for (int i = 0; i < n; i++) {
        int small = ((unsigned char *)data)[i * size] % 7 - 3;
        if (type == MPI_FLOAT)
            ((float *)data)[i] = (float)small;
        if (type == MPI_DOUBLE)
            ((double *)data)[i] = small * 0.5;
    }
    round_number++;
}

static void reductions(MPI_Comm comm)
{
    const MPI_Datatype types[] = {MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE};
    static double in[MOST / 8], out[MOST / 8], want[MOST / 8];
    int rank, ranks;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &ranks));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        int size, real = types[t] == MPI_FLOAT || types[t] == MPI_DOUBLE;
        OK(MPI_Type_size(types[t], &size));
        for (size_t o = 0; o < (real ? 4 : sizeof ops / sizeof *ops); o++) {
            int n = o % 2 ? MOST / size : 1 + (int)o, root = (int)o % ranks;
            MPI_Request r;
            fill(in, types[t], n);
            OK(MPI_Allreduce(in, want, n, types[t], ops[o], comm));
            OK(MPI_Iallreduce(in, out, n, types[t], ops[o], comm, &r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            CHECK(memcmp(out, want, (size_t)(n * size)) == 0);
            memset(out, 0x55, sizeof out);
            OK(MPI_Ireduce(in, out, n, types[t], ops[o], root, comm, &r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            if (rank == root)
                CHECK(memcmp(out, want, (size_t)(n * size)) == 0);
            else
                SAME(((unsigned char *)out)[n * size - 1], 0x55);
            memcpy(out, in, sizeof out);
            OK(MPI_Iallreduce(MPI_IN_PLACE, out, n, types[t], ops[o], comm, &r));
            for (int flag = 0; !flag;)
                OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
            CHECK(memcmp(out, want, (size_t)(n * size)) == 0);
        }
    }
}

/* Dense ones and, at odd ranks, such with gaps. */
static void broadcasts(MPI_Comm comm)
{
    int rank, ranks, data[512];
    MPI_Datatype gaps;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &ranks));
    OK(MPI_Type_vector(256, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int root = 0; root < ranks; root++) {
        int odd = rank % 2, step = odd ? 2 : 1;
        MPI_Request r;
        memset(data, 0x33, sizeof data);
        for (int i = 0; rank == root && i < 256; i++)
            data[i * step] = root * 1000 + i;
        OK(MPI_Ibcast(data, odd ? 1 : 256, odd ? gaps : MPI_INT, root, comm, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        for (int i = 0; i < 256; i++)
            SAME(data[i * step], root * 1000 + i);
        SAME(data[511], 0x33333333);
        if (odd)
            SAME(data[1], 0x33333333);
    }
    OK(MPI_Type_free(&gaps));
}

/* Many under way on each communicator, begun in another order of communicators on each rank; every third one does not fit. */
static void outstanding(MPI_Comm *comms)
{
    static int in[COMMS][DEPTH][300], out[COMMS][DEPTH][300];
    MPI_Request r[COMMS * DEPTH];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < COMMS; i++) {
            int c = (i + t_rank) % COMMS;
            for (int d = 0; d < DEPTH; d++) {
                int n = d % 3 == 2 ? 300 : 1 + d;
                for (int k = 0; k < n; k++)
                    in[c][d][k] = t_rank + round * 100 + k;
                if (d == 1)
                    OK(MPI_Ibarrier(comms[c], &r[c * DEPTH + d]));
                else
                    OK(MPI_Iallreduce(in[c][d], out[c][d], n, MPI_INT, MPI_SUM, comms[c], &r[c * DEPTH + d]));
            }
        }
        OK(MPI_Waitall(COMMS * DEPTH, r, MPI_STATUSES_IGNORE));
        for (int c = 0; c < COMMS; c++)
            for (int d = 0; d < DEPTH; d++)
                for (int k = 0; d != 1 && k < (d % 3 == 2 ? 300 : 1 + d); k++)
                    SAME(out[c][d][k], t_size * (t_size - 1) / 2 + t_size * (round * 100 + k));
    }
}

/* Of each kind the last rank comes late, after what it needs to come has been sent by one that has begun. */
static void local_start(MPI_Comm comm)
{
    int word = t_rank, got = -1, late = t_size - 1;
    MPI_Request r;
    if (t_rank == late && t_size > 1)
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Ibarrier(comm, &r));
    if (t_rank == 0 && t_size > 1)
        OK(MPI_Send(&word, 1, MPI_INT, late, 5, MPI_COMM_WORLD));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* Persistent ones, started in another order on each rank, again and again with other data. */
static void persistent(MPI_Comm comm)
{
    enum { BARRIER, BCAST, REDUCE, ALLREDUCE, IN_PLACE, KEPT };
    int rank, ranks, gone = 0, data[KEPT][4], out[KEPT][4];
    MPI_Request r[KEPT];
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &ranks));
    OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &r[BARRIER]));
    OK(MPI_Bcast_init(data[BCAST], 4, MPI_INT, ranks - 1, comm, MPI_INFO_NULL, &r[BCAST]));
    OK(MPI_Reduce_init(data[REDUCE], out[REDUCE], 4, MPI_INT, MPI_MAX, 0, comm, MPI_INFO_NULL, &r[REDUCE]));
    OK(MPI_Allreduce_init(data[ALLREDUCE], out[ALLREDUCE], 4, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[ALLREDUCE]));
    OK(MPI_Allreduce_init(MPI_IN_PLACE, data[IN_PLACE], 4, MPI_INT, MPI_MIN, comm, MPI_INFO_NULL, &r[IN_PLACE]));
    for (int round = 0; round < 40; round++) {
        for (int k = 0; k < KEPT; k++)
            for (int i = 0; i < 4; i++)
                data[k][i] = rank * 10 + round + i;
        if (round % 3 == 0)
            OK(MPI_Startall(KEPT, r));
        for (int k = 0; round % 3 && k < KEPT; k++)
            OK(MPI_Start(&r[(k + rank) % KEPT]));
        if (round % 2)
            OK(MPI_Waitall(KEPT, r, MPI_STATUSES_IGNORE));
        for (int flag = 0; round % 2 == 0 && !flag;)
            OK(MPI_Testall(KEPT, r, &flag, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 4; i++) {
            SAME(data[BCAST][i], (ranks - 1) * 10 + round + i);
            if (rank == 0)
                SAME(out[REDUCE][i], (ranks - 1) * 10 + round + i);
            SAME(out[ALLREDUCE][i], ranks * (ranks - 1) / 2 * 10 + ranks * (round + i));
            SAME(data[IN_PLACE][i], round + i);
        }
        gone++;
    }
    SAME(gone, 40);
    for (int k = 0; k < KEPT; k++)
        OK(MPI_Request_free(&r[k]));
}

static void all(void)
{
    MPI_Comm comms[COMMS], half, reversed;
    MPI_Request r;
    int one = 1, sum = 0, n;
    comms[0] = MPI_COMM_WORLD;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &reversed));
    comms[2] = reversed;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, 0, &half));
    reductions(MPI_COMM_WORLD);
    broadcasts(MPI_COMM_WORLD);
    broadcasts(half);
    broadcasts(reversed);
    reductions(half);
    persistent(half);
    outstanding(comms);
    local_start(comms[1]);
    OK(MPI_Comm_size(half, &n));
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half, &r));
    OK(MPI_Comm_free(&half));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    SAME(sum, n);
    OK(MPI_Comm_free(&comms[1]));
    OK(MPI_Comm_free(&reversed));
}

/* Communicators of MPI_Comm_idup: used at once, of one another, and freed with collectives under way. */
static void later(void)
{
    enum { N = 6 };
    MPI_Comm comms[N];
    MPI_Request r[N];
    int in[N], out[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            OK(MPI_Comm_idup(i % 2 ? comms[i - 1] : MPI_COMM_WORLD, &comms[i], &r[i]));
            if (i % 2 == 0 || round == 1)
                OK(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
        }
        OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) {
            int k = (i + t_rank) % N;
            in[k] = t_rank + k;
            OK(MPI_Iallreduce(&in[k], &out[k], 1, MPI_INT, MPI_SUM, comms[k], &r[k]));
            if (round == 2)
                OK(MPI_Comm_free(&comms[k]));
        }
        OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) {
            SAME(out[i], t_size * (t_size - 1) / 2 + t_size * i);
            if (round == 0)
                persistent(comms[i]);
            if (round < 2)
                OK(MPI_Comm_free(&comms[i]));
        }
        /* Made, and never used. */
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &comms[0], &r[0]));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&comms[0]));
    }
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]));
    OK(MPI_Request_free(&r[0]));
}

/* All but one sleep in MPI_Wait when that comes. */
static void asleep(void)
{
    MPI_Request r;
    for (int round = 0; round < 10; round++) {
        if (t_rank == round % t_size)
            t_sleep_ms(30);
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
}

/* Ranks compute from the start of each to long after it should be over. No thread does anything for them. */
static void computing(void)
{
    double in[100], out[100];
    MPI_Request r[2];
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int round = 0; round < 300; round++) {
        int n = round % 3 ? 100 : 1;
        for (int i = 0; i < n; i++)
            in[i] = t_rank + round + i;
        OK(MPI_Iallreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm, &r[0]));
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &r[1]));
        for (double begin = t_seconds(); t_seconds() < begin + 0.004;)
            ;
        SAME(t_threads(getpid()), 1);
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < n; i++)
            CHECK(out[i] == t_size * (t_size - 1) / 2 + t_size * (round + i));
    }
    OK(MPI_Comm_free(&comm));
}

/* More communicators than a user may have contexts. */
static void many(void)
{
    enum { N = 70 };
    static MPI_Comm comms[N];
    MPI_Request r[N];
    int in[N], out[N];
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < N; i++) {
        in[i] = i * t_rank;
        OK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_MAX, comms[i], &r[i]));
    }
    OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++) {
        SAME(out[i], i * (t_size - 1));
        OK(MPI_Comm_free(&comms[i]));
    }
}

/* All but one have begun when kaccd is killed, with more behind it; it comes when that is so. Then everything goes on. */
static void killed(void)
{
    enum { N = 4 };
    MPI_Request r[N];
    int in[N], out[N], owns = kaccd > 0, all_own[64], owner = 0;
    OK(MPI_Allgather(&owns, 1, MPI_INT, all_own, 1, MPI_INT, MPI_COMM_WORLD));
    while (!all_own[owner])
        owner++;
    for (int i = 0; i < 10; i++) {
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &r[0]));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < N; i++)
        in[i] = t_rank + i;
    if (t_rank == owner) {
        for (int i = 0; i < t_size; i++)
            if (i != owner)
                OK(MPI_Recv(&out[0], 1, MPI_INT, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        kaccd_stop();
    }
    for (int i = 0; i < N; i++)
        OK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[i]));
    if (t_rank != owner)
        OK(MPI_Send(&in[0], 1, MPI_INT, owner, 7, MPI_COMM_WORLD));
    OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        SAME(out[i], t_size * (t_size - 1) / 2 + t_size * i);
    all();
}

/* A rank that has no kaccd is killed while all others wait for it; what the others have without it goes on. */
static int lost(void)
{
    MPI_Comm left;
    MPI_Request r[3];
    int owns = kaccd > 0, all_own[64], victim = 0, in = 1, out = 0, n;
    OK(MPI_Allgather(&owns, 1, MPI_INT, all_own, 1, MPI_INT, MPI_COMM_WORLD));
    while (all_own[victim])
        victim++;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == victim, 0, &left));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (t_rank == victim) {
        for (int i = 0; i < t_size; i++)
            if (i != victim)
                OK(MPI_Recv(&out, 1, MPI_INT, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &r[0]));
    OK(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[1]));
    OK(MPI_Send(&in, 1, MPI_INT, victim, 7, MPI_COMM_WORLD));
    FAILS(MPI_Wait(&r[0], MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Wait(&r[1], MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Ibarrier(MPI_COMM_WORLD, &r[2]), MPI_ERR_PROC_ABORTED);
    OK(MPI_Comm_size(left, &n));
    for (int i = 0; i < 100; i++) {
        OK(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, left, &r[0]));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        SAME(out, n);
    }
    if (t_rank == (victim == 0)) {
        printf("ok coll_softirq\n");
        fflush(stdout);
    }
    OK(MPI_Finalize());
    kaccd_stop();
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int ring = strcmp(how, "ring") == 0;
    if (ring && !kaccd_calculates("ok coll_softirq; handed to the kernel: nothing, 0 in a signal's handler, 0 by kaccd's program"))
        return 0;
    int here = *how && !ring && getenv("YAMABIKO_KACCD") == NULL && kaccd_start();
    t_init(&argc, &argv);
    if (strcmp(how, "lost") == 0)
        return lost();
    if (here && strcmp(how, "killed") == 0)
        killed();
    else if (strcmp(how, "kept") == 0)
        persistent(MPI_COMM_WORLD), later();
    else if (strcmp(how, "asleep") == 0)
        asleep();
    else if (strcmp(how, "computing") == 0)
        computing();
    else
        all();
    if (strcmp(how, "many") == 0)
        many();
    if (ring) {
        unsigned long long reduced = counted("yamabiko_ring_by_program");
        OK(MPI_Allreduce(MPI_IN_PLACE, &reduced, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
        CHECK(reduced > 0);
    }
    int end = t_done("coll_softirq");
    kaccd_stop();
    return end;
}
