/* The reductions, blocking, non-blocking and persistent: reduce, allreduce, reduce_scatter(_block), scan, exscan
 * and reduce_local, with predefined operations and with a user-defined one that does not commute
 * (product of 2x2 matrices), for contiguous and derived types, in place, every root.
 *
 * Arguments: [largest block in bytes, default 64 KiB] [communicators: all | world] [gaps: tail | inner]
 * ("inner" has no gap at the end of the derived type: MPICH 5.0.2 confuses extent and true extent in
 * MPI_Reduce_scatter_block when the operation does not commute.)
 */
#include "coll.h"

enum { SUM, XOR, MATRIX, MATRIX_GAPS, SWAPPED, KINDS };

typedef struct {
    int kind, words, stride; /* words of data in one element, words of memory from one to the next */
    MPI_Datatype type;
    MPI_Op op;
} Kind;

static Kind kinds[KINDS];
static const int plain[4] = {0, 1, 2, 3};
static int spread[4] = {0, 1, 3, 4}, gaps[2] = {2, 5};

static void product(const uint32_t *a, const uint32_t *b, const int *at, uint32_t *out)
{
    uint32_t w = a[at[0]] * b[at[0]] + a[at[1]] * b[at[2]], x = a[at[0]] * b[at[1]] + a[at[1]] * b[at[3]];
    uint32_t y = a[at[2]] * b[at[0]] + a[at[3]] * b[at[2]], z = a[at[2]] * b[at[1]] + a[at[3]] * b[at[3]];
    out[at[0]] = w, out[at[1]] = x, out[at[2]] = y, out[at[3]] = z;
}

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    CHECK(extent == 16 || extent == 24);
    for (int i = 0; i < *count; i++) {
        size_t at = (size_t)i * (size_t)extent / 4;
        product((uint32_t *)in + at, (uint32_t *)inout + at, extent == 24 ? spread : plain, (uint32_t *)inout + at);
    }
}

static const int *inside(const Kind *k)
{
    return k->stride == 6 ? spread : plain;
}

/* Element i of rank `who`. */
static void element(const Kind *k, int who, size_t i, uint32_t *out)
{
    for (int j = 0; j < k->words; j++)
        out[inside(k)[j]] = (uint32_t)datum(who, i * 4 + (size_t)j);
}

static void combine(const Kind *k, uint32_t *left, const uint32_t *right)
{
    if (k->kind == SUM)
        *left += *right;
    else if (k->kind == XOR)
        *left ^= *right;
    else
        product(left, right, inside(k), left);
}

static uint32_t *elements(const Kind *k, size_t n)
{
    return (uint32_t *)ints(n * (size_t)k->stride);
}

static void contribute(const Kind *k, uint32_t *memory, size_t n, int who)
{
    for (size_t i = 0; i < n; i++)
        element(k, who, i, memory + i * (size_t)k->stride);
}

/* Elements first .. first + n of the combination of ranks 0 .. last, in that order. */
static void verify(const char *file, int line, const World *w, const Kind *k, const uint32_t *memory, size_t first, size_t n,
                   int last)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t want[6] = {0}, next[6] = {0};
        element(k, 0, first + i, want);
        for (int r = 1; r <= last; r++) {
            element(k, r, first + i, next);
            combine(k, want, next);
        }
        for (int j = 0; j < k->words; j++) {
            uint32_t got = memory[i * (size_t)k->stride + (size_t)inside(k)[j]];
            if (got != want[inside(k)[j]])
                t_fail(file, line, "%s, rank %d of %d, kind %d: element %zu of %zu is %u, not %u", w->name, w->rank, w->size,
                       k->kind, i, n, got, want[inside(k)[j]]);
        }
    }
    if (memory[n * (size_t)k->stride] != (uint32_t)-77777)
        t_fail(file, line, "%s, rank %d of %d, kind %d: written behind the buffer", w->name, w->rank, w->size, k->kind);
    if (k->stride == 6)
        for (size_t i = 0; i < n; i++)
            if (memory[6 * i + (size_t)gaps[0]] != (uint32_t)-77777 || memory[6 * i + (size_t)gaps[1]] != (uint32_t)-77777)
                t_fail(file, line, "%s, rank %d of %d: written into a gap", w->name, w->rank, w->size);
}

#define VERIFY_SUM(memory, first, n, last) verify(__FILE__, __LINE__, w, k, memory, first, n, last)

static void reduce(const World *w, const Kind *k, int n, int root, int form, int in_place)
{
    size_t un = (size_t)n;
    uint32_t *out = elements(k, un), *in = elements(k, un);
    int here = in_place && w->rank == root;
    contribute(k, here ? in : out, un, w->rank);
    CALL(form, MPI_Reduce, MPI_Ireduce, here ? MPI_IN_PLACE : out, w->rank == root ? in : NULL, n, k->type, k->op, root, w->comm);
    if (w->rank == root)
        VERIFY_SUM(in, 0, un, w->size - 1);
    free(out);
    free(in);
}

static void to_all(const World *w, const Kind *k, int n, int form, int in_place)
{
    size_t un = (size_t)n;
    uint32_t *out = elements(k, un), *in = elements(k, un);
    const void *send = in_place ? MPI_IN_PLACE : out;
    contribute(k, in_place ? in : out, un, w->rank);
    CALL(form, MPI_Allreduce, MPI_Iallreduce, send, in, n, k->type, k->op, w->comm);
    VERIFY_SUM(in, 0, un, w->size - 1);
    free(in);
    in = elements(k, un);
    if (in_place)
        contribute(k, in, un, w->rank);
    CALL(form, MPI_Scan, MPI_Iscan, send, in, n, k->type, k->op, w->comm);
    VERIFY_SUM(in, 0, un, w->rank);
    free(in);
    in = elements(k, un);
    if (in_place)
        contribute(k, in, un, w->rank);
    CALL(form, MPI_Exscan, MPI_Iexscan, send, in, n, k->type, k->op, w->comm);
    if (w->rank > 0)
        VERIFY_SUM(in, 0, un, w->rank - 1);
    free(out);
    free(in);
}

/* In place the receive buffer holds the whole input, and the result comes at its start. */
static void reduce_scatter(const World *w, const Kind *k, int n, int form, int in_place)
{
    int counts[64];
    size_t total = 0, first = 0, words = (size_t)k->stride;
    for (int r = 0; r < w->size; r++) {
        counts[r] = (r + (int)sequence) % 3 == 1 ? 0 : r % 2 ? n / 2 : n;
        if (r < w->rank)
            first += (size_t)counts[r];
        total += (size_t)counts[r];
    }
    for (int block = 0; block < 2; block++) {
        size_t mine = block ? (size_t)n : (size_t)counts[w->rank];
        if (block)
            total = (size_t)n * (size_t)w->size, first = (size_t)n * (size_t)w->rank;
        uint32_t *out = elements(k, total), *in = elements(k, in_place ? total : mine);
        const void *send = in_place ? MPI_IN_PLACE : out;
        contribute(k, in_place ? in : out, total, w->rank);
        if (block)
            CALL(form, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, send, in, n, k->type, k->op, w->comm);
        else
            CALL(form, MPI_Reduce_scatter, MPI_Ireduce_scatter, send, in, counts, k->type, k->op, w->comm);
        if (in_place && mine < total)
            in[mine * words] = (uint32_t)-77777; /* what stands behind the result is not specified */
        VERIFY_SUM(in, first, mine, w->size - 1);
        free(out);
        free(in);
    }
}

static void local(const Kind *k, int n)
{
    World self = {MPI_COMM_SELF, 0, 2, "local"}, *w = &self;
    uint32_t *a = elements(k, (size_t)n), *b = elements(k, (size_t)n);
    contribute(k, a, (size_t)n, 0);
    contribute(k, b, (size_t)n, 1);
    OK(MPI_Reduce_local(a, b, n, k->type, k->op));
    VERIFY_SUM(b, 0, (size_t)n, 1);
    free(a);
    free(b);
}

/* Many reductions under way at once. */
static void outstanding(const World *w, const Kind *k, int n)
{
    enum { K = 6 };
    uint32_t *out[K], *in[K];
    MPI_Request r[K];
    for (int i = 0; i < K; i++) {
        out[i] = elements(k, (size_t)n);
        in[i] = elements(k, (size_t)n);
        contribute(k, out[i], (size_t)n, w->rank);
        if (i % 3 == 0)
            OK(MPI_Iallreduce(out[i], in[i], n, k->type, k->op, w->comm, &r[i]));
        else if (i % 3 == 1)
            OK(MPI_Ireduce(out[i], in[i], n, k->type, k->op, w->size - 1, w->comm, &r[i]));
        else
            OK(MPI_Iscan(out[i], in[i], n, k->type, k->op, w->comm, &r[i]));
    }
    for (int i = K - 1; i >= 0; i--)
        coll_wait(&r[i]);
    for (int i = 0; i < K; i++) {
        if (i % 3 != 1 || w->rank == w->size - 1)
            VERIFY_SUM(in[i], 0, (size_t)n, i % 3 == 2 ? w->rank : w->size - 1);
        free(out[i]);
        free(in[i]);
    }
}

/* The persistent form of each reduction, once: the caller's turn chooses the root, and what is in place. */
static void persistently(const World *w, const Kind *k, int n, int part, int turn)
{
    sequence++;
    reduce(w, k, n, turn % w->size, PERSISTENT, turn % 2);
    sequence++;
    to_all(w, k, n, PERSISTENT, turn / 2 % 2);
    sequence++;
    reduce_scatter(w, k, part, PERSISTENT, (turn + 1) % 2);
}

static void everything(MPI_Comm comm, const char *name, long cap)
{
    static const long sizes[] = {0, 16, 112, 1024, 2064, 4096, 16384, 65536, 131088, 393216, 1048576, 4194304, 8388608};
    World world = {comm, 0, 0, name}, *w = &world;
    OK(MPI_Comm_rank(comm, &world.rank));
    OK(MPI_Comm_size(comm, &world.size));
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes) && sizes[i] <= cap; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            const Kind *k = &kinds[kind];
            int n = (int)(sizes[i] / 4 / k->words), brief = sizes[i] > 70000, part = n;
            if (brief && (kind == XOR || kind == SWAPPED))
                continue;
            while ((long)part * k->words * 4 * w->size > 8388608)
                part /= 2;
            for (int form = 0; form < PERSISTENT; form++) {
                for (int in_place = 0; in_place < 2; in_place++) {
                    if (brief && sizes[i] != 393216 && in_place == (form == BLOCKING))
                        continue;
                    for (int root = 0; root < w->size; root++) {
                        if (brief && root != 0 && root != w->size - 1)
                            continue;
                        if (form == NONBLOCKING && (root + i + kind) % 2)
                            continue; /* every other root; the next size has the others */
                        sequence++;
                        reduce(w, k, n, root, form, in_place);
                    }
                    sequence++;
                    to_all(w, k, n, form, in_place);
                    sequence++;
                    reduce_scatter(w, k, part, form, in_place);
                }
            }
            persistently(w, k, n, part, i + kind + w->size);
            sequence++;
            if (!brief)
                outstanding(w, k, n);
            local(k, n);
        }
}

static void prepare(void)
{
    MPI_Datatype loose;
    int lengths[2] = {2, 2};
    MPI_Aint places[2] = {0, 4 * spread[2]};
    kinds[SUM] = (Kind){SUM, 1, 1, MPI_UINT32_T, MPI_SUM};
    kinds[XOR] = (Kind){XOR, 1, 1, MPI_UINT32_T, MPI_BXOR};
    kinds[MATRIX] = (Kind){MATRIX, 4, 4, MPI_DATATYPE_NULL, MPI_OP_NULL};
    OK(MPI_Type_contiguous(4, MPI_UINT32_T, &kinds[MATRIX].type));
    OK(MPI_Type_commit(&kinds[MATRIX].type));
    OK(MPI_Op_create(multiply, 0, &kinds[MATRIX].op));
    kinds[MATRIX_GAPS] = (Kind){MATRIX_GAPS, 4, 6, MPI_DATATYPE_NULL, kinds[MATRIX].op};
    OK(MPI_Type_create_hindexed(2, lengths, places, MPI_UINT32_T, &loose));
    OK(MPI_Type_create_resized(loose, 0, 24, &kinds[MATRIX_GAPS].type));
    OK(MPI_Type_commit(&kinds[MATRIX_GAPS].type));
    OK(MPI_Type_free(&loose));
    /* The same matrices in a type whose first-listed block lies behind the second: memory is what counts for an operation. */
    MPI_Aint swapped[2] = {8, 0};
    kinds[SWAPPED] = (Kind){SWAPPED, 4, 4, MPI_DATATYPE_NULL, kinds[MATRIX].op};
    OK(MPI_Type_create_hindexed(2, lengths, swapped, MPI_UINT32_T, &kinds[SWAPPED].type));
    OK(MPI_Type_commit(&kinds[SWAPPED].type));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    long cap = argc > 1 ? atol(argv[1]) : 65536, less = cap > 5000 ? 5000 : cap;
    if (argc > 3 && strcmp(argv[3], "inner") == 0)
        spread[2] = 4, spread[3] = 5, gaps[0] = 2, gaps[1] = 3;
    prepare();
    everything(MPI_COMM_WORLD, "world", cap);
    if (argc <= 2 || strcmp(argv[2], "world") != 0) {
        MPI_Comm other;
        sequence = 1000000;
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &other));
        everything(other, "reversed", less);
        OK(MPI_Comm_free(&other));
        sequence = 2000000;
        OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, -t_rank, &other));
        everything(other, "halves", less);
        OK(MPI_Comm_free(&other));
        everything(MPI_COMM_SELF, "self", less);
    }
    for (int k = MATRIX; k < KINDS; k++)
        OK(MPI_Type_free(&kinds[k].type));
    OK(MPI_Op_free(&kinds[MATRIX].op));
    return t_done("coll_reduce");
}
