/* Collectives that the kernel runs (YAMABIKO_CAD=ring), reductions among them, of which one rank does nothing but compute: all others
 * are through with one before that rank calls MPI again. It makes no system call meanwhile but one for each reduction, in the handler
 * of a signal (any other ends the program), and no thread does it for it. Who is where, the ranks tell each other in shared memory.
 *
 * Argument "calls": without that handler (YAMABIKO_CAD_CALLBACK=none) reductions wait for the rank's next call, and come out right.
 * "thread": it is a thread of the library that does it (YAMABIKO_CAD=thread), all of it; the rank's own makes no system call at all.
 * "program": they are small, and it is kaccd's program that does them (YAMABIKO_CAD_CALLBACK=program), all but those of a function of the
 * program's own, which are left out; no system call at all either, and no signal. "killed": the same, and in the middle that kaccd is killed.
 */
#include "counters.h"
#include "kaccd.h"
#include "coll.h"
#include "shared.h"
#ifdef YAMABIKO
#include <yamabiko.h>
#endif
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 8192, LEAST = 128, KINDS = 6 };

/* What the ranks tell each other: how often somebody has begun to compute, or is through. */
typedef struct {
    atomic_int computing, through;
} Told;

static Told *told;
static MPI_Comm vouching; /* on it, functions of the program's may run in the handler too */
static MPI_Datatype pair;
static MPI_Op own, coded; /* coded: the same as byte code, which may run there on any communicator */
static int calls, thread, program, watched;
static int N = MOST; /* numbers of a collective */
static double sink;
static volatile char forbidden;       /* while 1, each system call of this thread is SIGSYS */
static volatile sig_atomic_t posted; /* those that it made for reductions */

#if defined(__x86_64__)
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

static long system_call(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return number;
}

/* A system call while they are forbidden: only a write of a unit is made. */
static void refused(int signal, siginfo_t *info, void *context)
{
    greg_t *at = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)signal;
    forbidden = 0;
    if (program || info->si_syscall != SYS_write || at[REG_RDX] != 8) {
        static const char words[] = "a system call of a rank that only computes\n";
        (void)!write(STDERR_FILENO, words, sizeof words - 1);
        _exit(3);
    }
    at[REG_RAX] = system_call(SYS_write, at[REG_RDI], at[REG_RSI], 8, 0);
    posted++;
    forbidden = 1;
}

/* Has system calls watched, if the kernel can. Returning from a handler is one too, and allowed. */
static int watch(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } kernels;
    action.sa_sigaction = refused;
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(system_call(SYS_rt_sigaction, SIGSYS, 0, (long)&kernels, 8) == 0);
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, kernels.restorer, 16UL, &forbidden) == 0;
}
#else
static int watch(void)
{
    return 0;
}
#endif

static void late(int signal)
{
    (void)signal;
    forbidden = 0;
    t_fail(__FILE__, __LINE__, "the others wait for a rank that computes, or it never does");
}

/* Until an event has come to pass this often. */
static void await(atomic_int *event, int count, int computes)
{
    double x = t_rank;
    alarm(60);
    forbidden = (char)computes;
    while (atomic_load(event) < count) {
        for (int i = 0; i < 1000; i++)
            x = x * 0.999 + i;
        if (!computes)
            sched_yield();
    }
    forbidden = 0;
    alarm(0);
    sink += x;
}

static double value(int who, int round, int i)
{
    return who * 1000 + round * 17 + i % 701;
}

/* The last number of each pair in order of ranks, and the sum of the first: not commutative. */
static void pairs(void *in_, void *inout_, int *n, MPI_Datatype *type)
{
    double *in = in_, *inout = inout_;
    (void)type;
    for (int i = 0; i < 2 * *n; i += 2)
        inout[i] += in[i];
}

static MPI_Op coded_pairs(void)
{
    MPI_Op op;
#ifdef YAMABIKO
    static const uint64_t code[] = {
        YAMABIKO_BC_BEGIN(2 * sizeof(double)),
        YAMABIKO_BC_LOAD_IN(YAMABIKO_BC_F64, 0, 0),
        YAMABIKO_BC_LOAD_INOUT(YAMABIKO_BC_F64, 1, 0),
        YAMABIKO_BC_ADD(YAMABIKO_BC_F64, 0, 0, 1),
        YAMABIKO_BC_STORE(YAMABIKO_BC_F64, 0, 0),
    };
    OK(yamabiko_op_create_bytecode(code, sizeof code, 0, &op));
#else
    OK(MPI_Op_create(pairs, 0, &op));
#endif
    return op;
}

static void begin(int kind, int root, double *in, double *out, MPI_Request *r)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    switch (kind) {
    case 0: OK(MPI_Ibcast(out, N, MPI_DOUBLE, root, comm, r)); break;
    case 1: OK(MPI_Iallreduce(in, out, N, MPI_DOUBLE, MPI_SUM, comm, r)); break;
    case 2: OK(MPI_Ireduce(in, out, N, MPI_DOUBLE, MPI_SUM, root, comm, r)); break;
    case 3: OK(MPI_Iallreduce(in, out, 1, MPI_DOUBLE, MPI_MAX, comm, r)); break;
    case 4: OK(MPI_Iallreduce(in, out, N / 2, pair, own, vouching, r)); break;
    default: OK(MPI_Iallreduce(in, out, N / 2, pair, coded, comm, r));
    }
}

static void look(int kind, int root, int round, const double *out)
{
    for (int i = 0; i < (kind == 3 ? 1 : N); i++) {
        double sum = 0;
        for (int p = 0; p < t_size; p++)
            sum += value(p, round, i);
        if (kind == 0)
            CHECK(out[i] == value(root, round, i));
        if (kind == 1 || (kind == 2 && t_rank == root))
            CHECK(out[i] == sum);
        if (kind == 3)
            CHECK(out[i] == value(t_size - 1, round, i));
        if (kind >= 4)
            CHECK(out[i] == (i % 2 ? value(t_size - 1, round, i) : sum));
    }
}

/* One collective. If there is a relay, that computes from its start until all others are through; they start theirs after it. */
static void one(int kind, int root, int relay, double *in, double *out)
{
    static int round, computed, passed;
    int computes = relay >= 0;
    MPI_Request r;
    round++;
    for (int i = 0; i < N; i++) {
        in[i] = value(t_rank, round, i);
        out[i] = kind == 0 && t_rank == root ? in[i] : -1;
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!computes) {
        begin(kind, root, in, out, &r);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else if (t_rank == relay) {
        begin(kind, root, in, out, &r);
        atomic_fetch_add(&told->computing, 1);
        await(&told->through, passed + t_size - 1, 1);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else {
        await(&told->computing, computed + 1, 0);
        begin(kind, root, in, out, &r);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        atomic_fetch_add(&told->through, 1);
    }
    computed += computes;
    passed += computes * (t_size - 1);
    look(kind, root, round, out);
}

int main(int argc, char **argv)
{
    int dies = argc > 1 && strcmp(argv[1], "killed") == 0;
    program = dies || (argc > 1 && strcmp(argv[1], "program") == 0);
    if (program && !kaccd_calculates("ok coll_ring_relay; handed to the kernel: nothing, 0 of which were done in calls, 0 in a signal's handler, 0 by kaccd's program"))
        return 0;
    t_init(&argc, &argv);
    if (program)
        N = LEAST;
    calls = argc > 1 && strcmp(argv[1], "calls") == 0;
    thread = argc > 1 && strcmp(argv[1], "thread") == 0;
    told = shared(sizeof *told);
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "yamabiko_op_async_safe", "true"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &vouching));
    OK(MPI_Info_free(&info));
    OK(MPI_Type_contiguous(2, MPI_DOUBLE, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Op_create(pairs, 0, &own));
    coded = coded_pairs();
    watched = watch();
    if (!watched && t_rank == 0)
        printf("skipped: coll_ring_relay: the kernel does not tell of system calls here\n");
    int before = t_threads(getpid()), sum = 0;
    double *in = t_alloc(N * sizeof *in), *out = t_alloc(N * sizeof *out);
    CHECK(signal(SIGALRM, late) != SIG_ERR);
    /* At first nobody computes, as connections are made in the first calls. */
    for (int relay = -1; relay < (calls ? 0 : t_size); relay++) {
        if (dies && relay == t_size / 2)
            kaccd_stop();
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < (relay >= 0 && t_size > 3 ? 3 : t_size); i++)
                if (!program || kind != 4)
                    one(kind, (relay + 1 + i) % t_size, relay, in, out);
    }
    SAME(t_threads(getpid()), before + thread);
    int mine = (int)posted;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    /* In an allreduce the one that computes has to reduce, at least for some. */
    CHECK(calls || !watched || t_size == 1 || (thread || program ? sum == 0 : sum > 0));
    if (program) {
        unsigned long long by_program = counted("yamabiko_ring_by_program");
        SAME(counted("yamabiko_ring_in_signals"), 0);
        OK(MPI_Allreduce(MPI_IN_PLACE, &by_program, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
        CHECK(by_program > 0);
    }
    free(in), free(out);
    OK(MPI_Op_free(&own));
    OK(MPI_Op_free(&coded));
    OK(MPI_Type_free(&pair));
    OK(MPI_Comm_free(&vouching));
    int end = t_done("coll_ring_relay");
    kaccd_stop();
    return end;
}
