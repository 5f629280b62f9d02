/* Non-blocking and persistent collectives that may be run by the kernel (YAMABIKO_CAD=ring): many under way at once, on several
 * communicators, begun and completed in different orders; communicators that go away early; waits that sleep.
 *
 * Argument "kernel": they are, so data come to ranks, and go on from there, while these only compute. Argument "refused": rank 1 must
 * not use io_uring, as in a container.
 */
#include "coll.h"
#include "refuse.h"
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMMS = 3, EACH = 7, N = 3000 };

typedef struct {
    int n, *in, *out;
} Work;

static Work work(int n, int each)
{
    Work w = {n, ints((size_t)n * (size_t)each), ints((size_t)n * (size_t)each)};
    return w;
}

static void affine(void *in_, void *inout_, int *len, MPI_Datatype *type)
{
    (void)type;
    /* x -> a x + b, the lower rank's first: not commutative */
    unsigned *in = in_, *inout = inout_;
    for (int i = 0; i < *len; i++, in += 2, inout += 2) {
        unsigned a = inout[0] * in[0], b = inout[0] * in[1] + inout[1];
        inout[0] = a, inout[1] = b;
    }
}

/* Collective `kind` of round `round`; persistent where `kept`. */
static void begin(MPI_Comm comm, int kind, int root, Work *w, int kept, MPI_Request *r)
{
    int *in = w->in, *out = w->out, n = w->n;
    MPI_Info no = MPI_INFO_NULL;
    switch (kind) {
    case 0: OK(kept ? MPI_Bcast_init(out, n, MPI_INT, root, comm, no, r) : MPI_Ibcast(out, n, MPI_INT, root, comm, r)); break;
    case 1: OK(kept ? MPI_Allreduce_init(in, out, n, MPI_INT, MPI_SUM, comm, no, r) : MPI_Iallreduce(in, out, n, MPI_INT, MPI_SUM, comm, r)); break;
    case 2: OK(kept ? MPI_Reduce_init(in, out, n, MPI_INT, MPI_MAX, root, comm, no, r) : MPI_Ireduce(in, out, n, MPI_INT, MPI_MAX, root, comm, r)); break;
    case 3: OK(kept ? MPI_Allgather_init(in, n, MPI_INT, out, n, MPI_INT, comm, no, r) : MPI_Iallgather(in, n, MPI_INT, out, n, MPI_INT, comm, r)); break;
    case 4: OK(kept ? MPI_Alltoall_init(in, n, MPI_INT, out, n, MPI_INT, comm, no, r) : MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, comm, r)); break;
    case 5: OK(kept ? MPI_Gather_init(in, n, MPI_INT, out, n, MPI_INT, root, comm, no, r) : MPI_Igather(in, n, MPI_INT, out, n, MPI_INT, root, comm, r)); break;
    case 6: OK(kept ? MPI_Scatter_init(in, n, MPI_INT, out, n, MPI_INT, root, comm, no, r) : MPI_Iscatter(in, n, MPI_INT, out, n, MPI_INT, root, comm, r)); break;
    default: OK(kept ? MPI_Barrier_init(comm, no, r) : MPI_Ibarrier(comm, r));
    }
}

static int mine(int who, int round, int i)
{
    return (who * 7919 + round * 104729 + i * 31) & 0xffff;
}

static void fill(Work *w, int kind, int root, int round)
{
    for (int i = 0; i < w->n * t_size; i++) {
        w->in[i] = mine(t_rank, round, i);
        w->out[i] = kind == 0 && t_rank == root ? mine(root, round, i) : -1;
    }
}

static void look(const Work *w, int kind, int root, int round)
{
    int n = w->n;
    for (int i = 0; i < n; i++) {
        int sum = 0, most = 0;
        for (int p = 0; p < t_size; p++) {
            int one = mine(p, round, i);
            sum += one;
            most = one > most ? one : most;
            if (kind == 3 || (kind == 5 && t_rank == root))
                SAME(w->out[p * n + i], one);
            if (kind == 4)
                SAME(w->out[p * n + i], mine(p, round, t_rank * n + i));
        }
        if (kind == 0)
            SAME(w->out[i], mine(root, round, i));
        if (kind == 1)
            SAME(w->out[i], sum);
        if (kind == 2 && t_rank == root)
            SAME(w->out[i], most);
        if (kind == 6)
            SAME(w->out[i], mine(root, round, t_rank * n + i));
    }
}

/* On each communicator in order, but among these in another order on each rank; completed from the last to the first, at once, or as they come. */
static void outstanding(MPI_Comm *comms)
{
    Work w[COMMS][EACH + 1];
    MPI_Request r[COMMS * (EACH + 1)];
    for (int c = 0; c < COMMS; c++)
        for (int k = 0; k <= EACH; k++)
            w[c][k] = work(k % 3 == 2 ? N : 1 + k, t_size);
    for (int round = 0; round < 6; round++) {
        int root = round % t_size, all = COMMS * (EACH + 1);
        for (int i = 0; i < COMMS; i++) {
            int c = (i + t_rank) % COMMS;
            for (int k = 0; k <= EACH; k++) {
                int kind = (k + c + round) % (EACH + 1);
                fill(&w[c][k], kind, root, round);
                begin(comms[c], kind, root, &w[c][k], 0, &r[c * (EACH + 1) + k]);
            }
        }
        if (round % 3 == 0) {
            OK(MPI_Waitall(all, r, MPI_STATUSES_IGNORE));
        } else if (round % 3 == 1) {
            for (int i = all; i-- > 0;)
                OK(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
        } else {
            for (int left = all, index; left > 0; left--) {
                OK(MPI_Waitany(all, r, &index, MPI_STATUS_IGNORE));
                CHECK(index != MPI_UNDEFINED);
            }
        }
        for (int c = 0; c < COMMS; c++)
            for (int k = 0; k <= EACH; k++)
                look(&w[c][k], (k + c + round) % (EACH + 1), root, round);
    }
}

/* Started in another order on each rank. */
static void persistent(MPI_Comm *comms)
{
    Work w[EACH + 1];
    MPI_Request r[EACH + 1];
    int root = t_size - 1;
    for (int k = 0; k <= EACH; k++) {
        w[k] = work(k % 2 ? N : 5, t_size);
        begin(comms[k % 2], k, root, &w[k], 1, &r[k]);
    }
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i <= EACH; i++) {
            int k = (i + round + t_rank) % (EACH + 1);
            fill(&w[k], k, root, round);
            OK(MPI_Start(&r[k]));
        }
        OK(MPI_Waitall(EACH + 1, r, MPI_STATUSES_IGNORE));
        for (int k = 0; k <= EACH; k++)
            look(&w[k], k, root, round);
    }
    for (int k = 0; k <= EACH; k++)
        OK(MPI_Request_free(&r[k]));
}

static int open_files(void)
{
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    CHECK(all != NULL);
    while (readdir(all))
        n++;
    closedir(all);
    return n;
}

/* The root is through with a communicator before the others have begun; nothing of it is kept. */
static void freed_early(void)
{
    int before = 0;
    for (int round = 0; round < 40; round++) {
        int value = t_rank == round % t_size ? round : -1, sum = 0;
        MPI_Comm comm;
        MPI_Request r[2];
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (t_rank != round % t_size && round % 4 == 0)
            t_sleep_ms(3);
        OK(MPI_Ibcast(&value, 1, MPI_INT, round % t_size, comm, &r[0]));
        if (round % 2) {
            OK(MPI_Allreduce_init(&t_rank, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[1]));
            OK(MPI_Start(&r[1]));
            OK(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&r[1]));
            SAME(sum, t_size * (t_size - 1) / 2);
        }
        if (round % 3 == 0)
            OK(MPI_Comm_free(&comm));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        if (round % 3)
            OK(MPI_Comm_free(&comm));
        SAME(value, round);
        if (round == 9 || round == 39) {
            OK(MPI_Barrier(MPI_COMM_WORLD));
            int now = open_files();
            if (round == 9)
                before = now;
            /* What others have not closed yet may be counted. */
            CHECK(now <= before + 6 * t_size);
        }
    }
}

/* Operators of the program's, and a rank that is late for a wait that sleeps. */
static void functions(void)
{
    MPI_Op op;
    MPI_Datatype pair;
    OK(MPI_Op_create(affine, 0, &op));
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &pair));
    OK(MPI_Type_commit(&pair));
    for (int late = 0; late < t_size; late++) {
        enum { PAIRS = 200 };
        unsigned in[2 * PAIRS], out[2 * PAIRS], want[2 * PAIRS];
        for (int p = 0; p < t_size; p++) {
            unsigned one[2 * PAIRS];
            for (int i = 0; i < 2 * PAIRS; i++)
                one[i] = 2u * (unsigned)mine(p, late, i) + 1;
            if (p == t_rank)
                memcpy(in, one, sizeof in);
            if (p > 0)
                affine(want, one, &(int){PAIRS}, NULL);
            memcpy(want, one, sizeof want);
        }
        MPI_Request r;
        if (t_rank == late)
            t_sleep_ms(50);
        OK(MPI_Iallreduce(in, out, PAIRS, pair, op, MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        SAME(memcmp(out, want, sizeof want), 0);
    }
    OK(MPI_Type_free(&pair));
    OK(MPI_Op_free(&op));
}

/* Blocking calls and messages between the start and the end of others, which are tested for meanwhile. */
static void mixed(MPI_Comm comm)
{
    int up = (t_rank + 1) % t_size, down = (t_rank + t_size - 1) % t_size;
    for (int round = 0; round < 20; round++) {
        Work w[EACH + 1];
        MPI_Request r[EACH + 1];
        int root = round % t_size, flag = 0, token = round, got = -1, sum = -1;
        for (int k = 0; k <= EACH; k++) {
            w[k] = work(1 + 100 * k, t_size);
            fill(&w[k], k, root, round);
            begin(comm, k, root, &w[k], 0, &r[k]);
            if (k % 3 == 0) {
                OK(MPI_Allreduce(&t_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
                SAME(sum, t_size * (t_size - 1) / 2);
            }
            if (k % 3 == 1)
                OK(MPI_Sendrecv(&token, 1, MPI_INT, up, 3, &got, 1, MPI_INT, down, 3, comm, MPI_STATUS_IGNORE));
            if (k % 3 == 2)
                OK(MPI_Test(&r[k - 1], &flag, MPI_STATUS_IGNORE));
        }
        SAME(got, round);
        /* One waits for the last of them while the root waits for a message from it. */
        if (t_rank == (root + 1) % t_size && t_size > 1) {
            OK(MPI_Wait(&r[EACH], MPI_STATUS_IGNORE));
            OK(MPI_Send(&token, 1, MPI_INT, root, 4, comm));
        }
        if (t_rank == root && t_size > 1)
            OK(MPI_Recv(&got, 1, MPI_INT, (root + 1) % t_size, 4, comm, MPI_STATUS_IGNORE));
        for (int all = 0; !all;)
            OK(MPI_Testall(EACH + 1, r, &all, MPI_STATUSES_IGNORE));
        for (int k = 0; k <= EACH; k++) {
            look(&w[k], k, root, round);
            free(w[k].in), free(w[k].out);
        }
    }
}

/* A process that forks while collectives are under way: the child has nothing to do with them, also if it lives longer. */
static void forked(void)
{
    pid_t children[8];
    for (int round = 0; round < 8; round++) {
        Work w[2] = {work(N, t_size), work(N, t_size)};
        MPI_Request r[2];
        int root = round % t_size;
        for (int k = 0; k < 2; k++) {
            fill(&w[k], k, root, round);
            begin(MPI_COMM_WORLD, k, root, &w[k], 0, &r[k]);
        }
        children[round] = fork();
        CHECK(children[round] >= 0);
        if (children[round] == 0) {
            memset(w[0].out, 0x55, N * sizeof(int));
            t_sleep_ms(round * 5);
            _exit(0);
        }
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        for (int k = 0; k < 2; k++) {
            look(&w[k], k, root, round);
            free(w[k].in), free(w[k].out);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status = -1;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        SAME(status, 0);
    }
}

/* Computes until the last of these integers is there, without MPI. */
static void compute(volatile const int *memory, int n, int last)
{
    double end = t_seconds() + 30;
    while (memory[n - 1] != last)
        if (t_seconds() > end)
            t_fail(__FILE__, __LINE__, "nothing came to a rank that computes");
}

/* Everybody but the last rank computes: a broadcast goes to all, and what the last sends when it has it comes to all. */
static void computing(void)
{
    enum { MANY = 20000 };
    int *there = ints(MANY), *back = ints(MANY), last = t_size - 1;
    MPI_Request r[2];
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            there[i] = t_rank == 0 ? round + i : -1;
            back[i] = -1;
        }
        /* Who lends connections is decided in the first calls. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Ibcast(there, MANY, MPI_INT, 0, MPI_COMM_WORLD, &r[0]));
        if (t_rank == last) {
            OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
            for (int i = 0; i < MANY; i++)
                back[i] = there[i] + 1;
        }
        OK(MPI_Ibcast(back, MANY, MPI_INT, last, MPI_COMM_WORLD, &r[1]));
        if (round > 1 && t_rank != last)
            compute(back, MANY, round + MANY);
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++) {
            SAME(there[i], round + i);
            SAME(back[i], round + i + 1);
        }
    }
}

/* Who only tests a barrier that a receiver comes to afterwards still sends what takes both sides' calls. */
static void tested_beside_a_message(void)
{
    enum { LONG = 4 << 20 };
    char *message = malloc(LONG);
    MPI_Request barrier, sent = MPI_REQUEST_NULL;
    memset(message, t_rank == 0 ? 7 : 0, LONG);
    if (t_rank == 0)
        OK(MPI_Isend(message, LONG, MPI_CHAR, t_size - 1, 11, MPI_COMM_WORLD, &sent));
    if (t_rank == t_size - 1)
        OK(MPI_Recv(message, LONG, MPI_CHAR, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier));
    for (int over = 0; !over;)
        OK(MPI_Test(&barrier, &over, MPI_STATUS_IGNORE));
    CHECK(t_rank != t_size - 1 || (message[0] == 7 && message[LONG - 1] == 7));
    OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
    free(message);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMI_RANK");
    if (argc > 1 && strcmp(argv[1], "refused") == 0 && rank && strcmp(rank, "1") == 0)
        refuse_io_uring();
    t_init(&argc, &argv);
    MPI_Comm comms[COMMS] = {MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL};
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_dup(comms[1], &comms[2]));
    outstanding(comms);
    persistent(comms);
    functions();
    mixed(comms[1]);
    forked();
    freed_early();
    if (t_size > 1)
        tested_beside_a_message();
    if (argc > 1 && strcmp(argv[1], "kernel") == 0)
        computing();
    outstanding(comms);
    OK(MPI_Comm_free(&comms[1]));
    OK(MPI_Comm_free(&comms[2]));
    return t_done("coll_ring");
}
