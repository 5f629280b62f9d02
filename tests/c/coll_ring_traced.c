/* Collectives of 64 KiB that the kernel runs (YAMABIKO_CAD=ring), while a rank that passes data on only computes: its system calls, as strace counts them, and its
 * threads. That rank begins some and computes until the data are all there. Meanwhile rank 0 has strace attach to it; only then the others begin theirs. When
 * all is over strace ends, and only then that rank calls MPI again. Rank 0 prints what was counted; stage execs judges it.
 */
#include "counters.h"
#include "kaccd.h"
#include "shared.h"
#include <sched.h>
#include <stdatomic.h>

enum { N = 8192, RELAY = 2, COMMS = 2, MOST = 2 * COMMS, SECONDS = 40 };
enum { BCAST, ALLREDUCE };

/* What the ranks tell each other: up to which window something has come. */
typedef struct {
    atomic_int computing, traced, through, over, untraced, late;
    int relay;
} Told;

static Told *told;
static MPI_Comm comms[COMMS];
static double in[MOST][N], out[MOST][N];
static MPI_Request requests[MOST];

/* Until an event has come to pass this often; without a system call, if the rank computes. */
static void await(atomic_int *event, int count, int computes)
{
    static volatile double sink;
    while (atomic_load(event) < count)
        for (int i = 0; i < 1000; i++)
            if (computes)
                sink = sink * 0.999 + i;
            else if (i == 0)
                sched_yield();
}

static double value(int who, int window, int i)
{
    return who * 1000 + window * 17 + i % 701;
}

static double wanted(int kind, int window, int i)
{
    double sum = 0;
    for (int p = 0; p < t_size; p++)
        sum += value(p, window, i);
    return kind == BCAST ? value(0, window, i) : sum;
}

static void fill(int kind, int window, int count)
{
    for (int k = 0; k < count; k++)
        for (int i = 0; i < N; i++) {
            in[k][i] = value(t_rank, window, i + k);
            out[k][i] = kind == BCAST && t_rank == 0 ? in[k][i] : -1;
        }
}

static void begin(int kind, int count)
{
    for (int k = 0; k < count; k++)
        if (kind == BCAST)
            OK(MPI_Ibcast(out[k], N, MPI_DOUBLE, 0, comms[k % COMMS], &requests[k]));
        else
            OK(MPI_Iallreduce(in[k], out[k], N, MPI_DOUBLE, MPI_SUM, comms[k % COMMS], &requests[k]));
}

/* Whether all is there; the kernel writes it meanwhile. */
static int there(int kind, int window, int count)
{
    for (int k = 0; k < count; k++)
        for (int i = 0; i < N; i++)
            if (*(volatile double *)&out[k][i] != wanted(kind, window, i + k))
                return 0;
    return 1;
}

/* A line of /proc/PID/status. */
static long status_of(pid_t pid, const char *name)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = name[0] == 'S' ? line[strlen(name) + 2] : atol(line + strlen(name) + 1);
    fclose(file);
    return value;
}

/* Has strace count the rank's system calls. That it does when the rank has stopped for it, which is the only reason for it to leave its processor by itself, and runs again. */
static pid_t attach(const char *table)
{
    char pid[16];
    long before = status_of(told->relay, "voluntary_ctxt_switches");
    snprintf(pid, sizeof pid, "%d", told->relay);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execlp("strace", "strace", "-f", "-c", "-o", table, "-p", pid, (char *)NULL);
        _exit(126);
    }
    for (double begin = t_seconds(); t_seconds() < begin + SECONDS; t_sleep_ms(5)) {
        CHECK(waitpid(child, NULL, WNOHANG) == 0);
        if (status_of(told->relay, "TracerPid") > 0 && status_of(told->relay, "voluntary_ctxt_switches") > before &&
            status_of(told->relay, "State") == 'R')
            return child;
    }
    t_fail(__FILE__, __LINE__, "strace does not come to count");
}

static void detach(pid_t tracer)
{
    CHECK(kill(tracer, SIGINT) == 0);
    CHECK(waitpid(tracer, NULL, 0) == tracer);
    SAME(status_of(told->relay, "TracerPid"), 0);
}

/* What was counted: a line, then strace's table. */
static void print(int kind, int count, unsigned long long reductions, int threads, const char *table)
{
    char line[256];
    FILE *file = fopen(table, "r");
    CHECK(file != NULL);
    printf("window: %s %d %llu %d\n", kind == BCAST ? "bcast" : "allreduce", count, reductions, threads);
    while (fgets(line, sizeof line, file) != NULL)
        printf("| %s", line);
    fflush(stdout);
    fclose(file);
}

/* One time in which the relay computes. */
static void window(int kind, int count)
{
    static int windows;
    char table[] = "/tmp/yamabiko_strace.XXXXXX";
    unsigned long long before = counted("yamabiko_ring_in_signals"), reductions;
    int threads = 0;
    pid_t tracer = -1;
    windows++;
    fill(kind, windows, count);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == RELAY) {
        begin(kind, count);
        atomic_store(&told->computing, windows);
        await(&told->through, windows * (t_size - 1), 1);
        while (!there(kind, windows, count))
            ;
        atomic_store(&told->over, windows);
        await(&told->untraced, windows, 1);
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    } else {
        await(&told->computing, windows, 0);
        if (t_rank == 0) {
            int file = mkstemp(table);
            CHECK(file >= 0 && close(file) == 0);
            tracer = attach(table);
            atomic_store(&told->traced, windows);
        }
        await(&told->traced, windows, 0);
        begin(kind, count);
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        atomic_fetch_add(&told->through, 1);
    }
    if (t_rank == 0) {
        await(&told->over, windows, 0);
        threads = t_threads(told->relay);
        detach(tracer);
        atomic_store(&told->untraced, windows);
    }
    CHECK(there(kind, windows, count));
    reductions = counted("yamabiko_ring_in_signals") - before;
    OK(MPI_Bcast(&reductions, 1, MPI_UNSIGNED_LONG_LONG, RELAY, MPI_COMM_WORLD));
    if (t_rank == 0) {
        print(kind, count, reductions, threads, table);
        CHECK(unlink(table) == 0);
    }
}

/* The last rank has a broadcast's data from the relay: it does not end there before that has begun it. */
static void passes_on(void)
{
    fill(BCAST, 0, 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == RELAY)
        await(&told->late, 1, 0);
    begin(BCAST, 1);
    if (t_rank == t_size - 1) {
        int flag = 0;
        for (double start = t_seconds(); t_seconds() < start + 0.05 && !flag;)
            OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        atomic_store(&told->late, 1);
    }
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK(there(BCAST, 0, 1));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    SAME(t_size, 4);
    told = shared(sizeof *told);
    if (t_rank == RELAY) {
        told->relay = getpid();
        /* Where only parents may attach; where anybody may, there is no such call. */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
    /* Connections are made in the first calls, for two of each at once. */
    for (int kind = BCAST; kind <= ALLREDUCE; kind++)
        for (int i = 0; i < 2; i++) {
            fill(kind, 0, MOST);
            begin(kind, MOST);
            OK(MPI_Waitall(MOST, requests, MPI_STATUSES_IGNORE));
            CHECK(there(kind, 0, MOST));
        }
    passes_on();
    for (int kind = BCAST; kind <= ALLREDUCE; kind++)
        for (int count = MOST / 2; count <= MOST; count += MOST / 2)
            window(kind, count);
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_free(&comms[c]));
    return t_done("coll_ring_traced");
}
