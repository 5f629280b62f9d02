/* What FMPL's tests share: checks that say where, and "ok NAME" from rank 0 at the end. */
#ifndef CHECK_H
#define CHECK_H

#include <fmpl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int me, size;

#define CHECK(what)                                                                   \
    do {                                                                              \
        if (!(what)) {                                                                \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, me, #what);   \
            abort();                                                                  \
        }                                                                             \
    } while (0)

/* The call gives this code, and leaves the same in ier. */
#define GIVES(code, call)                                                             \
    do {                                                                              \
        int ier = -99, gave_ = (call);                                                  \
        if (gave_ != (code) || ier != (code)) {                                         \
            fprintf(stderr, "%s:%d: rank %d: %s gave %d (%s), ier %d, not %d\n",      \
                    __FILE__, __LINE__, me, #call, gave_, fmpl_strerror(gave_), ier,      \
                    (code));                                                          \
            abort();                                                                  \
        }                                                                             \
    } while (0)

#define OK(call) GIVES(FMPL_SUCCESS, call)

/* Starts FMPL and learns rank and size. */
static inline void start(int count) {
    OK(fmpl_init(NULL, NULL, count, &ier));
    OK(fmpl_comm_rank(FMPL_COMM_WORLD, &me, &ier));
    OK(fmpl_comm_size(FMPL_COMM_WORLD, &size, &ier));
}

static inline void end(const char *name) {
    OK(fmpl_finalize(&ier));
    if (me == 0)
        printf("ok %s\n", name);
}

static inline void meet(void) { OK(fmpl_barrier(FMPL_COMM_WORLD, &ier)); }

static inline void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static inline unsigned char byte(size_t i, int seed) { return (unsigned char)(i * 7 + i / 251 + seed * 31); }

static inline void fill(void *buf, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = byte(i, seed);
}

static inline int holds(const void *buf, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)buf)[i] != byte(i, seed))
            return 0;
    return 1;
}

#endif
