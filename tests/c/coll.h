/* What the collective tests share: data that says whose it is, layouts, and the wait that makes one
 * body serve the blocking, the non-blocking and the persistent form.
 */
#ifndef COLL_H
#define COLL_H

#include "check.h"

typedef struct {
    MPI_Comm comm;
    int rank, size;
    const char *name;
} World;

/* How n integers lie in memory. */
enum { DENSE, GAPS, MIXED, SHAPES };

/* GAPS: triples of integers at 0, 2, 3 in an extent of 5.  MIXED: odd ranks use GAPS, even ones DENSE
 * (same signature, so it is a legal program). */
typedef struct {
    MPI_Datatype type;
    int gaps; /* the layout is GAPS */
} Shape;

static MPI_Datatype gaps_type = MPI_DATATYPE_NULL;
static unsigned sequence; /* another one for every collective, so that stale data shows */

static inline Shape shape_of(int shape, int rank)
{
    int gaps = shape == GAPS || (shape == MIXED && rank % 2);
    return (Shape){gaps ? gaps_type : MPI_INT, gaps};
}

static inline int units(Shape s, int n)
{
    return s.gaps ? n / 3 : n;
}

static inline size_t place(Shape s, size_t i)
{
    static const int inside[3] = {0, 2, 3};
    return s.gaps ? i / 3 * 5 + (size_t)inside[i % 3] : i;
}

/* integers of memory that n integers of data span, in whole extents */
static inline size_t room(Shape s, size_t n)
{
    return s.gaps ? n / 3 * 5 : n;
}

static inline int *ints(size_t n)
{
    int *memory = t_alloc((n + 1) * sizeof *memory);
    for (size_t i = 0; i <= n; i++)
        memory[i] = -77777;
    return memory;
}

/* Element i of what `who` sends in this round. */
static inline int datum(int who, size_t i)
{
    return (int)((unsigned)i * 2654435761u ^ ((unsigned)who * 40503u + sequence * 97u) << 7) & 0x3fffffff;
}

static inline void put(int *memory, Shape s, size_t from, size_t n, int who, size_t first)
{
    for (size_t i = 0; i < n; i++)
        memory[place(s, from + i)] = datum(who, first + i);
}

static inline void see(const char *file, int line, const World *w, const int *memory, Shape s, size_t from, size_t n, int who,
                       size_t first)
{
    for (size_t i = 0; i < n; i++)
        if (memory[place(s, from + i)] != datum(who, first + i))
            t_fail(file, line, "%s, rank %d of %d: integer %zu of %zu from %d: %d, not %d", w->name, w->rank, w->size, i, n, who,
                   memory[place(s, from + i)], datum(who, first + i));
}

#define SEE(w, memory, s, from, n, who, first) see(__FILE__, __LINE__, w, memory, s, from, n, who, first)

/* Nothing behind the buffer and nothing in the gaps was written. */
static inline void edges(const char *file, int line, const World *w, const int *memory, Shape s, size_t n)
{
    if (memory[room(s, n)] != -77777)
        t_fail(file, line, "%s, rank %d of %d: written behind the buffer", w->name, w->rank, w->size);
    if (s.gaps)
        for (size_t k = 0; k < n / 3; k++)
            if (memory[5 * k + 1] != -77777 || memory[5 * k + 4] != -77777)
                t_fail(file, line, "%s, rank %d of %d: written into a gap", w->name, w->rank, w->size);
}

#define EDGES(w, memory, s, n) edges(__FILE__, __LINE__, w, memory, s, n)

/* The forms of a collective. */
enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

/* One of its forms, with the arguments that all have:
 * CALL(form, MPI_Bcast, MPI_Ibcast, buf, n, MPI_INT, root, comm).  coll_persist.c starts persistent ones again and again. */
#define CALL(form, blocking, nonblocking, ...) \
    do { \
        MPI_Request request_ = MPI_REQUEST_NULL; \
        if ((form) == PERSISTENT) { \
            OK(blocking##_init(__VA_ARGS__, MPI_INFO_NULL, &request_)); \
            OK(MPI_Start(&request_)); \
            coll_wait(&request_); \
            CHECK(request_ != MPI_REQUEST_NULL); \
            OK(MPI_Request_free(&request_)); \
        } else if ((form) == NONBLOCKING) { \
            OK(nonblocking(__VA_ARGS__, &request_)); \
            coll_wait(&request_); \
            CHECK(request_ == MPI_REQUEST_NULL); \
        } else { \
            OK(blocking(__VA_ARGS__)); \
        } \
    } while (0)

/* Half of them by Wait, half by Test. */
static inline void coll_wait(MPI_Request *request)
{
    if (sequence % 2) {
        OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    } else {
        int flag = 0;
        while (!flag)
            OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    }
}

static inline void coll_types(void)
{
    int places[3] = {0, 2, 3};
    MPI_Datatype triple;
    OK(MPI_Type_create_indexed_block(3, 1, places, MPI_INT, &triple));
    OK(MPI_Type_create_resized(triple, 0, 5 * (MPI_Aint)sizeof(int), &gaps_type));
    OK(MPI_Type_free(&triple));
    OK(MPI_Type_commit(&gaps_type));
}

#endif
