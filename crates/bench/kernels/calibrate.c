/* What the machine itself can do at this moment, medians of batches:
 *
 *   flag NANOSECONDS     a cache line from one process to another, one way: a flag in shared memory,
 *                        polled by plain loads without a pause
 *   memcpy GIGABYTES     copied in a second, one process, from 1 MiB to another 1 MiB
 *
 * Results of message passing are only comparable between moments at which these are the same. The
 * argument is how long the flag may take at most, in milliseconds: two processes that share one processor
 * hand over only at the end of a time slice. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 101, ROUNDS = 256, COPY_BATCHES = 31, COPIES = 4, COPIED = 1 << 20 };

enum { SPINS = 4096 };

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

/* Waits for the answer; returns 0 if that takes beyond `until`. Looks at the clock so rarely that an answer
 * which comes at once meets none of it. */
static int answered(struct flags *f, uint64_t number, double until) {
    unsigned spins = 0;
    while (f->back != number)
        if (++spins % SPINS == 0 && now() > until)
            return 0;
    return 1;
}

/* Nanoseconds one way; negative if there is no second process to be had. Without time for a batch, a part of
 * one is taken for the whole. */
static double flag(double seconds) {
    struct flags *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double batches[BATCHES], until = now() + seconds;
    uint64_t number = 0;
    pid_t parent = getpid(), child;
    int done = 0, in_time = 1;
    if (f == MAP_FAILED || (child = fork()) < 0)
        return -1;
    if (child == 0)
        answer(f, parent);
    while (in_time && done < BATCHES) {
        double start = now();
        int rounds = 0;
        for (; in_time && rounds < ROUNDS; rounds++) {
            f->there = ++number;
            in_time = answered(f, number, until);
        }
        if (in_time || done == 0)
            batches[done++] = (now() - start) / rounds / 2;
        in_time = in_time && now() < until;
    }
    f->there = STOP;
    waitpid(child, NULL, 0);
    qsort(batches, (size_t)done, sizeof batches[0], ascending);
    return 1e9 * batches[done / 2];
}

/* Gigabytes a second; negative if there is no memory. */
static double copy(void) {
    double batches[COPY_BATCHES];
    char *from = malloc(COPIED), *to = malloc(COPIED);
    if (!from || !to)
        return -1;
    memset(from, 1, COPIED);
    memset(to, 0, COPIED);
    for (int b = 0; b < COPY_BATCHES; b++) {
        double start = now();
        for (int i = 0; i < COPIES; i++) {
            memcpy(to, from, COPIED);
            /* So that no copy is left out because the next one does the same. */
            __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
        }
        batches[b] = now() - start;
    }
    free(from);
    free(to);
    qsort(batches, COPY_BATCHES, sizeof batches[0], ascending);
    return 1e-9 * COPIES * COPIED / batches[COPY_BATCHES / 2];
}

int main(int argc, char **argv) {
    double milliseconds = argc == 2 ? atof(argv[1]) : 0, line, bytes;
    if (milliseconds <= 0) {
        fprintf(stderr, "argument: MILLISECONDS\n");
        return 1;
    }
    line = flag(1e-3 * milliseconds);
    bytes = copy();
    if (line < 0 || bytes < 0) {
        perror("calibrate");
        return 1;
    }
    printf("flag %.1f\nmemcpy %.3f\n", line, bytes);
    return 0;
}
