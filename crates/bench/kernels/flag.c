/* What the machine itself takes to pass a cache line between two processes: a flag in shared memory,
 * polled by plain loads without a pause. Prints "flag NANOSECONDS", one way, median of batches.
 *
 * Results of message passing are only comparable between moments at which this is the same. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 101, ROUNDS = 256 };

/* The measurement ends after this, with the batches it then has: two processes that share one
 * processor hand over only at the end of a time slice. */
static const double MOST_SECONDS = 1.0;

static const uint64_t STOP = UINT64_MAX;

struct flags {
    _Alignas(128) volatile uint64_t there;
    _Alignas(128) volatile uint64_t back;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Answers every number until told to stop, or until the other process is gone. */
static void answer(struct flags *f, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (uint64_t seen = 0, value;; seen = value) {
        while ((value = f->there) == seen) {
        }
        if (value == STOP)
            _exit(0);
        f->back = value;
    }
}

int main(void) {
    struct flags *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double batches[BATCHES], begin = now();
    uint64_t number = 0;
    pid_t parent = getpid(), child;
    int done = 0;
    if (f == MAP_FAILED || (child = fork()) < 0) {
        perror("flag");
        return 1;
    }
    if (child == 0)
        answer(f, parent);
    for (; done < BATCHES && (done == 0 || now() - begin < MOST_SECONDS); done++) {
        double start = now();
        int rounds = 0;
        while (rounds < ROUNDS && now() - begin < MOST_SECONDS + 1)
            for (int i = 0; i < 16; i++, rounds++) {
                f->there = ++number;
                while (f->back != number) {
                }
            }
        batches[done] = (now() - start) / rounds / 2;
    }
    f->there = STOP;
    waitpid(child, NULL, 0);
    qsort(batches, (size_t)done, sizeof batches[0], ascending);
    printf("flag %.1f\n", 1e9 * batches[done / 2]);
    return 0;
}
