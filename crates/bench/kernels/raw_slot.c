/* What the experiments of FMPL's paper can cost at least: two processes and shared memory, without a library.
 *
 *   latency     microseconds one way, by bytes: the receiver writes a header into a slot at the sender, the sender
 *               sees it, writes the data home and then a flag; each on a line of its own. HOW: blocking, or ahead
 *               (the header for the answer is written before the message that is answered)
 *   reduce      microseconds, whatever the value: 8 KiB one way, and adding as many. HOW: apart (what came is not read, and
 *               the sum is of the receiver's own), or added (the receiver adds what came, from where it lies)
 *   ping-pong, bcast-bandwidth   gigabytes a second, by bytes: a copy from one array to another, by one process */
#define _GNU_SOURCE
#include "bench.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 128, BYTES_MAX = 8 << 10 };

/* What lies at one side. */
struct side {
    _Alignas(LINE) _Atomic uint64_t header; /* the generation of the receive that the other side has posted */
    uint64_t where, length;                 /* and the rest of it */
    _Alignas(LINE) _Atomic uint64_t flag;   /* the generation of the data that are there */
    _Alignas(LINE) char data[BYTES_MAX];
};

static struct side *mine, *theirs;
static uint64_t sent, posted, received;
static size_t bytes;
static char message[BYTES_MAX];
static double sums[BYTES_MAX / sizeof(double)], terms[BYTES_MAX / sizeof(double)];
static int is_ahead, is_added;

static void add(const double *to_all) {
    for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++)
        sums[k] += to_all[k];
    /* So that no sum is left out because nobody looks at it. */
    __asm__ volatile("" : : "r"(sums), "r"(to_all) : "memory");
}

static void post(void) {
    theirs->where = 0;
    theirs->length = bytes;
    atomic_store_explicit(&theirs->header, ++posted, memory_order_release);
}

static void send(void) {
    uint64_t where, length;
    sent++;
    while (atomic_load_explicit(&mine->header, memory_order_acquire) < sent) {
    }
    where = mine->where;
    length = mine->length;
    /* Bounded, as whatever another process wrote has to be. */
    if (length > BYTES_MAX || where > BYTES_MAX - length)
        _exit(1);
    memcpy(theirs->data + where, message, length);
    atomic_store_explicit(&theirs->flag, sent, memory_order_release);
}

static void receive(void) {
    received++;
    if (posted < received)
        post();
    while (atomic_load_explicit(&mine->flag, memory_order_acquire) < received) {
    }
    if (is_added)
        add((const double *)(const void *)mine->data);
}

/* Receives and sends until it is ended. */
static void answer(pid_t parent) {
    struct side *own = theirs;
    theirs = mine;
    mine = own;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (;;) {
        receive();
        /* Its slot is free since the data came. */
        if (is_ahead)
            post();
        send();
    }
}

static double exchange(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        if (is_ahead && posted == received)
            post();
        send();
        receive();
    }
    return (bench_now() - start) / rounds;
}

static char *from, *to;

static double copy(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        memcpy(to, from, bytes);
        /* So that no copy is left out because the next one does the same. */
        __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
    }
    return (bench_now() - start) / rounds;
}

static double sum(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        add(terms);
    return (bench_now() - start) / rounds;
}

static double measure(double (*run)(int rounds)) {
    double times[BENCH_BATCHES];
    int rounds, batches;
    run(1);
    bench_plan(run(8), &rounds, &batches);
    for (int b = 0; b < batches; b++)
        times[b] = run(rounds);
    return bench_median(times, batches);
}

/* Microseconds one way; negative if there is no second process to be had. */
static double latency(void) {
    struct side *both;
    double seconds;
    pid_t parent = getpid(), child;
    if (bytes > BYTES_MAX)
        return -1;
    both = mmap(NULL, 2 * sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED)
        return -1;
    mine = &both[0];
    theirs = &both[1];
    sent = posted = received = 0;
    if ((child = fork()) < 0)
        return -1;
    if (child == 0)
        answer(parent);
    seconds = measure(exchange);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(both, 2 * sizeof *both);
    return 1e6 * seconds / 2;
}

/* Gigabytes a second; negative if there is no memory. */
static double copied(void) {
    double figure;
    from = malloc(bytes + 1);
    to = malloc(bytes + 1);
    if (!from || !to)
        return -1;
    memset(from, 1, bytes + 1);
    memset(to, 0, bytes + 1);
    figure = 1e-9 * (double)bytes / measure(copy);
    free(from);
    free(to);
    return figure;
}

static double figure(size_t value) {
    double latency_only;
    bytes = bench_is("reduce") ? BYTES_MAX : value;
    if (bench_is("latency"))
        return latency();
    if (!bench_is("reduce"))
        return copied();
    latency_only = latency();
    return latency_only < 0 || is_added ? latency_only : latency_only + 1e6 * measure(sum);
}

int main(int argc, char **argv) {
    if (!bench_arguments(argc, argv)) {
        fprintf(stderr, "arguments: MILLISECONDS WHAT HOW VALUE...\n");
        return 1;
    }
    is_ahead = !strcmp(bench.how, "ahead");
    is_added = !strcmp(bench.how, "added");
    /* What is buffered must not be printed twice, by the second process. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_library("shared memory and memcpy, in C");
    for (int i = 0; i < bench.count; i++) {
        double found = figure(bench_value(i));
        if (found < 0) {
            fprintf(stderr, "raw_slot: no memory, no second process, or more than %d bytes\n", BYTES_MAX);
            return 1;
        }
        bench_point(i, found);
    }
    bench_end();
    return 0;
}
