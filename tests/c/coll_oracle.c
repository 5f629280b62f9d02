/* Every collective that moves data, blocking, non-blocking and persistent, against what it has to deliver:
 * all roots, sizes from nothing to the cap, contiguous and derived types, in place, on the world and
 * on communicators with other groups and orders.  coll_reduce.c does the same for the reductions.
 *
 * Arguments: [largest block in bytes, default 64 KiB] [communicators: all | world] [allgatherv types: mixed | same]
 * ("same" gives all ranks one type in MPI_Allgatherv: MPICH 5.0.2 fails when only the signatures are equal.)
 */
#include "coll.h"

static int same_types;

/* The v-forms: ranks contribute different amounts, some nothing, placed in reverse order with gaps. */
static int share(int rank, int n)
{
    return (rank + (int)sequence) % 3 == 1 ? 0 : rank % 2 ? n / 3 / 2 * 3 : n;
}

static void place_shares(const World *w, int n, int *counts, int *displacements, size_t *total, Shape s)
{
    size_t at = 0;
    for (int r = w->size - 1; r >= 0; r--) {
        counts[r] = units(s, share(r, n));
        displacements[r] = (int)(s.gaps ? at / 3 : at);
        at += (size_t)share(r, n) + 3;
    }
    *total = at;
}

static void bcast(const World *w, int n, int root, int shape, int form)
{
    Shape s = shape_of(shape, w->rank);
    int *data = ints(room(s, (size_t)n));
    if (w->rank == root)
        put(data, s, 0, (size_t)n, root, 0);
    CALL(form, MPI_Bcast, MPI_Ibcast, data, units(s, n), s.type, root, w->comm);
    SEE(w, data, s, 0, (size_t)n, root, 0);
    EDGES(w, data, s, (size_t)n);
    free(data);
}

static void gather(const World *w, int n, int root, int shape, int form, int in_place, int v)
{
    Shape s = shape_of(shape, w->rank), rs = shape_of(shape, root);
    int counts[64], places[64], me = w->rank == root;
    size_t total = (size_t)n * (size_t)w->size;
    if (v)
        place_shares(w, n, counts, places, &total, rs);
    int mine = v ? share(w->rank, n) : n;
    int *out = ints(room(s, (size_t)mine)), *in = me ? ints(room(rs, total)) : NULL;
    put(out, s, 0, (size_t)mine, w->rank, 0);
    const void *send = out;
    if (me && in_place) {
        put(in, rs, v ? (size_t)places[root] * (rs.gaps ? 3 : 1) : (size_t)root * (size_t)n, (size_t)mine, root, 0);
        send = MPI_IN_PLACE;
    }
    if (v)
        CALL(form, MPI_Gatherv, MPI_Igatherv, send, units(s, mine), s.type, in, counts, places, rs.type, root, w->comm);
    else
        CALL(form, MPI_Gather, MPI_Igather, send, units(s, n), s.type, in, units(rs, n), rs.type, root, w->comm);
    if (me) {
        for (int r = 0; r < w->size; r++)
            SEE(w, in, rs, v ? (size_t)places[r] * (rs.gaps ? 3 : 1) : (size_t)r * (size_t)n, (size_t)(v ? share(r, n) : n), r, 0);
        EDGES(w, in, rs, total);
    }
    free(out);
    free(in);
}

static void scatter(const World *w, int n, int root, int shape, int form, int in_place, int v)
{
    Shape s = shape_of(shape, w->rank), rs = shape_of(shape, root);
    int counts[64], places[64], me = w->rank == root;
    size_t total = (size_t)n * (size_t)w->size;
    if (v)
        place_shares(w, n, counts, places, &total, rs);
    int mine = v ? share(w->rank, n) : n;
    int *out = me ? ints(room(rs, total)) : NULL, *in = ints(room(s, (size_t)mine));
    if (me)
        for (int r = 0; r < w->size; r++)
            put(out, rs, v ? (size_t)places[r] * (rs.gaps ? 3 : 1) : (size_t)r * (size_t)n, (size_t)(v ? share(r, n) : n), root,
                (size_t)r * 1000003);
    void *receive = me && in_place ? MPI_IN_PLACE : in;
    if (v)
        CALL(form, MPI_Scatterv, MPI_Iscatterv, out, counts, places, rs.type, receive, units(s, mine), s.type, root, w->comm);
    else
        CALL(form, MPI_Scatter, MPI_Iscatter, out, units(rs, n), rs.type, receive, units(s, n), s.type, root, w->comm);
    if (receive == in) {
        SEE(w, in, s, 0, (size_t)mine, root, (size_t)w->rank * 1000003);
        EDGES(w, in, s, (size_t)mine);
    }
    free(out);
    free(in);
}

static void allgather(const World *w, int n, int shape, int form, int in_place, int v)
{
    Shape s = shape_of(shape, w->rank), rs = shape_of(shape, v && same_types ? 1 : w->rank + 1);
    int counts[64], places[64];
    size_t total = (size_t)n * (size_t)w->size;
    if (v)
        place_shares(w, n, counts, places, &total, rs);
    int mine = v ? share(w->rank, n) : n;
    int *out = ints(room(s, (size_t)mine)), *in = ints(room(rs, total));
    put(out, s, 0, (size_t)mine, w->rank, 0);
    const void *send = out;
    if (in_place) {
        put(in, rs, v ? (size_t)places[w->rank] * (rs.gaps ? 3 : 1) : (size_t)w->rank * (size_t)n, (size_t)mine, w->rank, 0);
        send = MPI_IN_PLACE;
    }
    if (v)
        CALL(form, MPI_Allgatherv, MPI_Iallgatherv, send, units(s, mine), s.type, in, counts, places, rs.type, w->comm);
    else
        CALL(form, MPI_Allgather, MPI_Iallgather, send, units(s, n), s.type, in, units(rs, n), rs.type, w->comm);
    for (int r = 0; r < w->size; r++)
        SEE(w, in, rs, v ? (size_t)places[r] * (rs.gaps ? 3 : 1) : (size_t)r * (size_t)n, (size_t)(v ? share(r, n) : n), r, 0);
    EDGES(w, in, rs, total);
    free(out);
    free(in);
}

static void alltoall(const World *w, int n, int shape, int form, int in_place)
{
    Shape s = shape_of(shape, w->rank), rs = in_place ? s : shape_of(shape, w->rank + 1);
    size_t total = (size_t)n * (size_t)w->size;
    int *out = ints(room(s, total)), *in = ints(room(rs, total));
    for (int r = 0; r < w->size; r++)
        put(in_place ? in : out, s, (size_t)r * (size_t)n, (size_t)n, w->rank, (size_t)r * 1000003);
    CALL(form, MPI_Alltoall, MPI_Ialltoall, in_place ? MPI_IN_PLACE : out, units(s, n), s.type, in, units(rs, n), rs.type,
         w->comm);
    for (int r = 0; r < w->size; r++)
        SEE(w, in, rs, (size_t)r * (size_t)n, (size_t)n, r, (size_t)w->rank * 1000003);
    EDGES(w, in, rs, total);
    free(out);
    free(in);
}

/* What `from` sends to `to`: symmetric, because MPI_IN_PLACE demands it. */
static int pair_share(int from, int to, int n)
{
    return (from + to + (int)sequence) % 4 == 0 ? 0 : (from * to) % 2 ? n / 6 * 3 : n;
}

static void alltoallv(const World *w, int n, int shape, int form, int in_place, int with_types)
{
    int out_counts[64], in_counts[64], out_places[64], in_places[64];
    size_t out_from[64], in_from[64], out_total = 0, in_total = 0;
    MPI_Datatype out_types[64], in_types[64];
    Shape out_shapes[64], in_shapes[64];
    /* Everything is laid out in a unit that all shapes share: 5 integers of memory for 3 of data. */
    for (int k = 0; k < w->size; k++) {
        int r = w->size - 1 - k;
        out_shapes[r] = with_types ? shape_of(shape, w->rank + r) : shape_of(shape, w->rank);
        in_shapes[r] = in_place ? out_shapes[r] : with_types ? shape_of(shape, w->rank + r + 1) : shape_of(shape, w->rank + 1);
        out_types[r] = out_shapes[r].type;
        in_types[r] = in_shapes[r].type;
        size_t so = (size_t)pair_share(w->rank, r, n), si = (size_t)pair_share(r, w->rank, n);
        out_counts[r] = units(out_shapes[r], (int)so);
        in_counts[r] = units(in_shapes[r], (int)si);
        out_from[r] = out_total;
        in_from[r] = in_total;
        out_total += (so / 3 + 1) * 5;
        in_total += (si / 3 + 1) * 5;
        /* A block of nothing needs no type. */
        out_types[r] = with_types && so == 0 ? MPI_DATATYPE_NULL : out_types[r];
        in_types[r] = with_types && si == 0 ? MPI_DATATYPE_NULL : in_types[r];
        out_places[r] = (int)(with_types ? out_from[r] * sizeof(int) : out_shapes[r].gaps ? out_from[r] / 5 : out_from[r]);
        in_places[r] = (int)(with_types ? in_from[r] * sizeof(int) : in_shapes[r].gaps ? in_from[r] / 5 : in_from[r]);
    }
    int *out = ints(out_total), *in = ints(in_total);
    for (int r = 0; r < w->size; r++)
        put(in_place ? in + in_from[r] : out + out_from[r], out_shapes[r], 0, (size_t)pair_share(w->rank, r, n), w->rank,
            (size_t)r * 1000003);
    const void *send = in_place ? MPI_IN_PLACE : out;
    if (with_types)
        CALL(form, MPI_Alltoallw, MPI_Ialltoallw, send, out_counts, out_places, out_types, in, in_counts, in_places, in_types,
             w->comm);
    else
        CALL(form, MPI_Alltoallv, MPI_Ialltoallv, send, out_counts, out_places, out_types[0], in, in_counts, in_places,
             in_types[0], w->comm);
    for (int r = 0; r < w->size; r++)
        SEE(w, in + in_from[r], in_shapes[r], 0, (size_t)pair_share(r, w->rank, n), r, (size_t)w->rank * 1000003);
    SAME(in[in_total], -77777);
    free(out);
    free(in);
}

static void barriers(const World *w)
{
    for (int i = 0; i < 20; i++)
        CALL(i % FORMS, MPI_Barrier, MPI_Ibarrier, w->comm);
    /* A barrier really waits: the last to come is late. */
    for (int i = 0; i < FORMS; i++) {
        double before = 0, after = 0, latest = 0;
        if (w->rank == w->size - 1)
            t_sleep_ms(20);
        before = t_seconds();
        CALL(i, MPI_Barrier, MPI_Ibarrier, w->comm);
        after = t_seconds();
        OK(MPI_Allreduce(&before, &latest, 1, MPI_DOUBLE, MPI_MAX, w->comm));
        CHECK(after >= latest);
    }
}

/* Several collectives under way at once, completed out of order, with messages in between. */
static void outstanding(const World *w, int n)
{
    enum { K = 9 };
    MPI_Request r[K];
    Shape s = shape_of(DENSE, 0);
    size_t total = (size_t)n * (size_t)w->size, un = (size_t)n;
    int *b0 = ints(un), *b1 = ints(un), *g = ints(total), *o = ints(un), *t_out = ints(total), *t_in = ints(total);
    int *sum = ints(un), *ag = ints(total), word = w->rank, got = -1, last = w->size - 1;
    int right = (w->rank + 1) % w->size, left = (w->rank + last) % w->size;
    if (w->rank == 0)
        put(b0, s, 0, un, 0, 0);
    if (w->rank == last)
        put(b1, s, 0, un, last, 5);
    put(o, s, 0, un, w->rank, 0);
    for (int k = 0; k < w->size; k++)
        put(t_out, s, (size_t)k * un, un, w->rank, (size_t)k * 1000003);
    OK(MPI_Ibcast(b0, n, MPI_INT, 0, w->comm, &r[0]));
    OK(MPI_Ibcast(b1, n, MPI_INT, last, w->comm, &r[1]));
    OK(MPI_Igather(o, n, MPI_INT, g, n, MPI_INT, last, w->comm, &r[2]));
    OK(MPI_Ialltoall(t_out, n, MPI_INT, t_in, n, MPI_INT, w->comm, &r[3]));
    OK(MPI_Ibarrier(w->comm, &r[4]));
    OK(MPI_Iallreduce(o, sum, n, MPI_INT, MPI_BXOR, w->comm, &r[5]));
    OK(MPI_Iallgather(o, n, MPI_INT, ag, n, MPI_INT, w->comm, &r[6]));
    OK(MPI_Irecv(&got, 1, MPI_INT, left, 6, w->comm, &r[7]));
    OK(MPI_Isend(&word, 1, MPI_INT, right, 6, w->comm, &r[8]));
    OK(MPI_Wait(&r[6], MPI_STATUS_IGNORE));
    if (sequence % 2) {
        OK(MPI_Waitall(K, r, MPI_STATUSES_IGNORE));
    } else {
        int index = 0, done = 0;
        for (; done < K - 1; done++) {
            OK(MPI_Waitany(K, r, &index, MPI_STATUS_IGNORE));
            CHECK(index >= 0 && index < K && index != 6);
        }
    }
    SEE(w, b0, s, 0, un, 0, 0);
    SEE(w, b1, s, 0, un, last, 5);
    for (int k = 0; k < w->size; k++) {
        if (w->rank == last)
            SEE(w, g, s, (size_t)k * un, un, k, 0);
        SEE(w, t_in, s, (size_t)k * un, un, k, (size_t)w->rank * 1000003);
        SEE(w, ag, s, (size_t)k * un, un, k, 0);
    }
    for (size_t i = 0; i < un; i++) {
        int want = 0;
        for (int k = 0; k < w->size; k++)
            want ^= datum(k, i);
        SAME(sum[i], want);
    }
    SAME(got, left);
    free(b0), free(b1), free(g), free(o), free(t_out), free(t_in), free(sum), free(ag);
}

/* Those without a root. */
static void unrooted(const World *w, int block, int shape, int form, int in_place)
{
    sequence++;
    allgather(w, block, shape, form, in_place, 0);
    sequence++;
    allgather(w, block, shape, form, in_place, 1);
    sequence++;
    alltoall(w, block, shape, form, in_place);
    sequence++;
    alltoallv(w, block, shape, form, in_place, 0);
    sequence++;
    alltoallv(w, block, shape, form, in_place, 1);
}

/* The persistent form of each collective, once: the caller's turn chooses the root, and what is in place. */
static void persistently(const World *w, int n, int block, int shape, int turn)
{
    int root = turn % w->size;
    sequence++;
    bcast(w, n, root, shape, PERSISTENT);
    for (int v = 0; v < 2; v++) {
        sequence++;
        gather(w, block, root, shape, PERSISTENT, (turn + v) % 2, v);
        sequence++;
        scatter(w, block, root, shape, PERSISTENT, (turn + v) % 2, v);
    }
    unrooted(w, block, shape, PERSISTENT, turn / 2 % 2);
}

static void everything(const World *w, long cap)
{
    static const long sizes[] = {0, 12, 96, 1020, 4092, 12288, 49152, 65532, 393216, 1048572, 3145728, 8388600};
    barriers(w);
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes) && sizes[i] <= cap; i++) {
        int n = (int)(sizes[i] / 12 * 3); /* integers, a multiple of three */
        int brief = sizes[i] > 100000;    /* large ones: fewer combinations */
        /* a block per rank: keep the sum within what a small machine holds */
        int block = n;
        while ((long)block * 4 * w->size > 2 * 8388608L)
            block = block / 6 * 3;
        for (int shape = 0; shape < SHAPES; shape++) {
            for (int form = 0; form < PERSISTENT; form++) {
                if (brief && shape == MIXED && form)
                    continue;
                for (int root = 0; root < w->size; root++) {
                    if (brief && root != 0 && root != w->size - 1 && root != w->size / 2)
                        continue;
                    if (form == NONBLOCKING && (root + i + shape) % 2)
                        continue; /* every other root; the next size has the others */
                    sequence++;
                    bcast(w, n, root, shape, form);
                    for (int variant = 0; variant < 4; variant++) {
                        if (brief && variant == 1 + form)
                            continue;
                        sequence++;
                        gather(w, block, root, shape, form, variant & 1, variant >> 1);
                        sequence++;
                        scatter(w, block, root, shape, form, variant & 1, variant >> 1);
                    }
                }
                for (int in_place = 0; in_place < 2; in_place++)
                    unrooted(w, block, shape, form, in_place);
            }
            if (!brief || (i + w->size) % SHAPES == shape)
                persistently(w, n, block, shape, i + shape + w->size);
        }
        sequence++;
        outstanding(w, block);
        sequence++;
        outstanding(w, block);
    }
}

static void on(MPI_Comm comm, const char *name, long cap)
{
    World w = {comm, 0, 0, name};
    OK(MPI_Comm_rank(comm, &w.rank));
    OK(MPI_Comm_size(comm, &w.size));
    everything(&w, cap);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    long cap = argc > 1 ? atol(argv[1]) : 65536;
    int world_only = argc > 2 && strcmp(argv[2], "world") == 0;
    same_types = argc > 3 && strcmp(argv[3], "same") == 0;
    coll_types();
    on(MPI_COMM_WORLD, "world", cap);
    if (!world_only) {
        MPI_Comm other;
        long less = cap > 5000 ? 5000 : cap, few = cap > 100 ? 100 : cap;
        sequence = 1000000;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        on(other, "duplicate", few); /* the same processes in the same order: only the context is another */
        OK(MPI_Comm_free(&other));
        sequence = 2000000;
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &other));
        on(other, "reversed", less);
        OK(MPI_Comm_free(&other));
        sequence = 3000000;
        OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, t_rank, &other));
        on(other, "halves", less);
        OK(MPI_Comm_free(&other));
        sequence = 4000000;
        on(MPI_COMM_SELF, "self", 5000);
    }
    OK(MPI_Type_free(&gaps_type));
    return t_done("coll_oracle");
}
