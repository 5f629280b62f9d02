/* Helpers shared by the C tests.
 *
 * A test is a plain MPI program.  It prints "ok NAME" from rank 0 when every rank has passed and
 * exits non-zero otherwise: the first failed check prints rank, file and line and aborts the job.
 * The programs use only the MPI standard, so that any library can be checked with them.
 */
#ifndef CHECK_H
#define CHECK_H

#include <dirent.h>
#include <mpi.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int t_rank = -1, t_size = 0;

static inline void t_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

static inline void t_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d: %s:%d: ", t_rank, file, line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static inline void t_call(const char *file, int line, const char *text, int code)
{
    if (code != MPI_SUCCESS) {
        char words[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(code, words, &length);
        t_fail(file, line, "%s: %s", text, words);
    }
}

static inline int t_class(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* A condition that has to hold. */
#define CHECK(condition) \
    do { \
        if (!(condition)) \
            t_fail(__FILE__, __LINE__, "not so: %s", #condition); \
    } while (0)

/* Two integers that have to be equal; both are printed when they are not. */
#define SAME(got, want) \
    do { \
        long long got_ = (long long)(got), want_ = (long long)(want); \
        if (got_ != want_) \
            t_fail(__FILE__, __LINE__, "%s is %lld, not %s = %lld", #got, got_, #want, want_); \
    } while (0)

/* An MPI call that has to succeed. */
#define OK(call) t_call(__FILE__, __LINE__, #call, (call))

/* An MPI call that has to fail with an error of the given class. */
#define FAILS(call, class) \
    do { \
        int code_ = (call); \
        if (t_class(code_) != (class)) \
            t_fail(__FILE__, __LINE__, "%s: class %d, not %s (%d)", #call, t_class(code_), #class, class); \
    } while (0)

static inline void *t_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (memory == NULL)
        t_fail(__FILE__, __LINE__, "out of memory");
    return memory;
}

static inline double t_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void t_sleep_ms(int milliseconds)
{
    struct timespec pause = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&pause, NULL);
}

/* Threads of a process, those that the kernel makes for io_uring among them. */
static inline int t_threads(int process)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        t_fail(__FILE__, __LINE__, "%s can't be read", path);
    for (struct dirent *one; (one = readdir(tasks)) != NULL;)
        n += one->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* A byte that depends on everything that could be confused: who sent it, in which round, where it stands. */
static inline unsigned char t_byte(unsigned who, unsigned round, size_t index)
{
    uint64_t x = (uint64_t)index * 0x9e3779b97f4a7c15u + who * 0xbf58476du + round * 0x94d049bbu + 1;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (unsigned char)(x >> 56);
}

static inline void t_init(int *argc, char ***argv)
{
    OK(MPI_Init(argc, argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
}

/* The end of every test: all ranks have passed. */
static inline int t_done(const char *name)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 0) {
        printf("ok %s\n", name);
        fflush(stdout);
    }
    OK(MPI_Finalize());
    return 0;
}

/* How the bytes of a message lie in memory: t_at gives the position of byte `index`. */
enum { T_PLAIN, T_SPACED, T_NESTED, T_LAYOUTS };

static inline size_t t_at(int layout, size_t index)
{
    switch (layout) {
    case T_SPACED:
        return 3 * index;
    case T_NESTED:
        return index / 7 * 11 + index % 7;
    default:
        return index;
    }
}

static inline size_t t_span(int layout, size_t bytes)
{
    return bytes ? t_at(layout, bytes - 1) + 1 : 0;
}

/* The type that describes `bytes` bytes in this layout, and how many of it make the message. */
static inline MPI_Datatype t_type(int layout, size_t bytes, int *count)
{
    MPI_Datatype type;
    if (layout == T_SPACED) { /* one byte in an extent of three */
        OK(MPI_Type_create_resized(MPI_BYTE, 0, 3, &type));
        *count = (int)bytes;
    } else if (layout == T_NESTED) { /* blocks of seven, eleven apart, and what is left over */
        int blocks = (int)(bytes / 7), rest = (int)(bytes % 7);
        MPI_Datatype body;
        OK(MPI_Type_vector(blocks, 7, 11, MPI_BYTE, &body));
        int lengths[2] = {1, rest};
        MPI_Aint places[2] = {0, (MPI_Aint)blocks * 11};
        MPI_Datatype types[2] = {body, MPI_BYTE};
        OK(MPI_Type_create_struct(2, lengths, places, types, &type));
        OK(MPI_Type_free(&body));
        *count = 1;
    } else {
        OK(MPI_Type_dup(MPI_BYTE, &type));
        *count = (int)bytes;
    }
    OK(MPI_Type_commit(&type));
    return type;
}

static inline void t_fill(unsigned char *memory, int layout, size_t bytes, unsigned who, unsigned round)
{
    memset(memory, 0xA5, t_span(layout, bytes));
    for (size_t i = 0; i < bytes; i++)
        memory[t_at(layout, i)] = t_byte(who, round, i);
}

/* Bytes in place and, between them, nothing touched (the receiver cleared its memory to 0x5A). */
static inline void t_verify(const char *file, int line, const unsigned char *memory, int layout, size_t bytes,
                            unsigned who, unsigned round)
{
    size_t next = 0;
    for (size_t i = 0; i < bytes; i++) {
        size_t at = t_at(layout, i);
        for (; next < at; next++)
            if (memory[next] != 0x5A)
                t_fail(file, line, "byte %zu between the data was overwritten (layout %d, %zu bytes)", next, layout, bytes);
        if (memory[at] != t_byte(who, round, i))
            t_fail(file, line, "byte %zu of %zu from %u in round %u is wrong (layout %d)", i, bytes, who, round, layout);
        next = at + 1;
    }
    if (memory[next] != 0x5A)
        t_fail(file, line, "the byte behind the message was overwritten (layout %d, %zu bytes)", layout, bytes);
}

#define VERIFY(memory, layout, bytes, who, round) t_verify(__FILE__, __LINE__, memory, layout, bytes, who, round)

#endif
