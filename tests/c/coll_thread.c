/* Collectives that a thread of the library goes on with while ranks compute (YAMABIKO_CAD=thread).
 *
 * There is one thread more from the first non-blocking collective on, until MPI_Finalize. Where nothing is under way it does nothing. It
 * does not call the program's reduction functions, unless the program vouches for them. A process that is forked while it works
 * hears from MPI what it may not do, and changes nothing.
 */
#include "coll.h"
#include "shared.h"
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 40000, FORKS = 60, ROUNDS = 5, NOTHING_MS = 50, IDLE_TRIES = 20, RETURNED = 77 };

/* What the ranks tell each other. */
typedef struct {
    atomic_int through;
} Told;

static Told *told;
static long main_thread;
static atomic_int strange; /* calls of the reduction function on another thread */
static double sink;

/* The number of threads; the last one that is not the main one. */
static int threads(long *other)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *one; (one = readdir(tasks)) != NULL;) {
        long id = atol(one->d_name);
        n += id != 0;
        if (id != 0 && id != main_thread && other != NULL)
            *other = id;
    }
    closedir(tasks);
    return n;
}

/* A field of the thread's status that is a number; or its state, as a character. */
static long status(long thread, const char *field)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", thread);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0) {
            const char *text = line + strlen(field);
            text += strspn(text, ": \t");
            value = *text >= 'A' ? *text : atol(text);
        }
    fclose(file);
    return value;
}

static void late(int signal)
{
    (void)signal;
    t_fail(__FILE__, __LINE__, "the others wait for a rank that computes");
}

/* Computes until so many ranks are through, without a call. */
static void compute(int count)
{
    double x = t_rank;
    alarm(60);
    while (atomic_load(&told->through) < count) {
        for (int i = 0; i < 1000; i++)
            x = x * 0.999 + i;
        /* Where ranks share processors. */
        sched_yield();
    }
    alarm(0);
    sink += x;
}

/* A sum that notes where it was called. */
static void noted(void *in_, void *inout_, int *n, MPI_Datatype *type)
{
    int *in = in_, *inout = inout_;
    (void)type;
    if (syscall(SYS_gettid) != main_thread)
        strange++;
    for (int i = 0; i < *n; i++)
        inout[i] += in[i];
}

/* Each rank in turn starts one that can't be over when its call returns, as nobody else has started his. */
static void begun(void)
{
    for (int turn = 0; turn < t_size; turn++) {
        char go = 1;
        MPI_Request r;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (t_rank != turn)
            OK(MPI_Recv(&go, 1, MPI_CHAR, turn, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &r));
        for (int i = 0; t_rank == turn && i < t_size; i++)
            if (i != turn)
                OK(MPI_Send(&go, 1, MPI_CHAR, i, turn, MPI_COMM_WORLD));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
}

static int value(int who, int round, int i)
{
    return who * 100 + round * 7 + i % 13;
}

/* A broadcast whose relays compute from its start until everybody else is through: all ranks but the root and the last one. */
static void relayed(int round)
{
    static int passed;
    static int data[N];
    int relays = t_size > 2 && t_rank != 0 && t_rank != t_size - 1;
    MPI_Request r;
    for (int i = 0; i < N; i++)
        data[i] = t_rank == 0 ? value(0, round, i) : -1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Ibcast(data, N, MPI_INT, 0, MPI_COMM_WORLD, &r));
    passed += t_size > 2 ? 2 : t_size;
    if (relays)
        compute(passed);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    if (!relays)
        atomic_fetch_add(&told->through, 1);
    for (int i = 0; i < N; i++)
        SAME(data[i], value(0, round, i));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* An allreduce with a function of the program's, while the last rank computes; whether the function ran on another thread there. */
static int reduced(MPI_Comm comm, MPI_Op op, int round)
{
    static int in[N], out[N];
    MPI_Request r;
    strange = 0;
    for (int i = 0; i < N; i++)
        in[i] = value(t_rank, round, i);
    OK(MPI_Iallreduce(in, out, N, MPI_INT, op, comm, &r));
    for (int i = 0; i < 2000 && t_rank == t_size - 1; i++)
        sched_yield();
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) {
        int sum = 0;
        for (int p = 0; p < t_size; p++)
            sum += value(p, round, i);
        SAME(out[i], sum);
    }
    return strange;
}

/* What a process does that was forked: it asks what it may ask, and calls what it may not. That says so, and doesn't come back. */
static void child(void)
{
    int size, finalized = -1;
    alarm(20);
    close(STDERR_FILENO);
    MPI_Finalized(&finalized);
    if (finalized == 0)
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    _exit(RETURNED);
}

/* Forks while collectives are under way. */
static void forked(void)
{
    static int data[N];
    MPI_Request r;
    for (int i = 0; i < FORKS; i++) {
        int left = -1;
        if (t_rank == 0)
            data[N - 1] = i;
        OK(MPI_Ibcast(data, N, MPI_INT, 0, MPI_COMM_WORLD, &r));
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child();
        CHECK(waitpid(pid, &left, 0) == pid);
        CHECK(WIFEXITED(left) && WEXITSTATUS(left) != RETURNED);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        SAME(data[N - 1], i);
    }
}

/* Where nothing is under way the thread does nothing, whatever else the ranks do. */
static void idle(long thread)
{
    int next = (t_rank + 1) % t_size, before = (t_rank + t_size - 1) % t_size, out = 1, in = 0;
    /* It may be on its way to where it is parked, which takes a while on a machine that has much else to do: a thread that looks around now and then
     * never passes. All ranks do the same. */
    for (int tries = 0, still = 0; !still; tries++) {
        int mine;
        CHECK(tries < IDLE_TRIES);
        t_sleep_ms(NOTHING_MS);
        long switches = status(thread, "voluntary_ctxt_switches");
        for (int i = 0; i < NOTHING_MS; i++) {
            OK(MPI_Sendrecv(&out, 1, MPI_INT, next, 0, &in, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            t_sleep_ms(1);
        }
        mine = status(thread, "State") == 'S' && status(thread, "voluntary_ctxt_switches") == switches;
        OK(MPI_Allreduce(&mine, &still, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    main_thread = syscall(SYS_gettid);
    CHECK(threads(NULL) == 1);
    t_init(&argc, &argv);
    CHECK(signal(SIGALRM, late) != SIG_ERR);
    told = shared(sizeof *told);
    CHECK(threads(NULL) == 1);
    begun();
    long thread = -1;
    CHECK(threads(&thread) == (t_size > 1 ? 2 : 1));
    for (int round = 0; round < ROUNDS; round++)
        relayed(round);

    MPI_Op own;
    MPI_Comm vouching;
    MPI_Info info;
    OK(MPI_Op_create(noted, 1, &own));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "yamabiko_op_async_safe", "true"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &vouching));
    OK(MPI_Info_free(&info));
    for (int round = 0; round < ROUNDS; round++) {
        SAME(reduced(MPI_COMM_WORLD, own, round), 0);
        reduced(vouching, own, round);
    }
    OK(MPI_Comm_free(&vouching));
    OK(MPI_Op_free(&own));

    forked();
    if (t_size > 1)
        idle(thread);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 0)
        printf("ok coll_thread\n");
    OK(MPI_Finalize());
    CHECK(threads(NULL) == 1);
    return 0;
}
