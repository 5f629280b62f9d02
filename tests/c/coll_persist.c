/* Persistent collectives: every kind, started again and again with other data, alone and many at once, in another
 * order on each rank, mixed with blocking and non-blocking ones, after their types, operations and communicators
 * were freed.  coll_oracle.c and coll_reduce.c try them with all sizes, roots and types.
 *
 * Arguments: alone | together | freed | numbers | errors   [plain]
 * ("plain" doesn't ask for the status of a request before it waits: on MPICH 5.0.2 MPI_Waitany then finds none.)
 */
#include "coll.h"

enum {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW,
    REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, KINDS
};

enum { MOST = 16 };

static int ways = 5; /* of completing one */

/* One persistent collective and what it moves.  For all but the reductions n is in integers, a multiple of 6; a
 * reduction's elements have `words` integers. */
typedef struct {
    const World *w;
    int kind, n, root, in_place, large, id;
    Shape shape;
    int words; /* 1: sum; 2: affine maps */
    int *out, *in;
    size_t out_room, in_room; /* integers of memory */
    int out_counts[MOST], in_counts[MOST], out_places[MOST], in_places[MOST];
    MPI_Count out_counts_c[MOST], in_counts_c[MOST];
    MPI_Aint out_places_c[MOST], in_places_c[MOST];
    MPI_Datatype out_types[MOST], in_types[MOST];
    MPI_Request request;
} Case;

/* x -> a x + b, first the left one: associative, but the order counts. */
static void compose(const uint32_t *left, const uint32_t *right, uint32_t *out)
{
    uint32_t a = right[0] * left[0], b = right[0] * left[1] + right[1];
    out[0] = a, out[1] = b;
}

/* The type may have been freed; the handle that comes here has to be of use all the same. */
static void affine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size = 0;
    OK(MPI_Type_size(*type, &size));
    SAME(size, 8);
    for (int i = 0; i < *count; i++)
        compose((uint32_t *)in + 2 * i, (uint32_t *)inout + 2 * i, (uint32_t *)inout + 2 * i);
}

static int is_reduction(const Case *c)
{
    return c->kind >= REDUCE;
}

/* What `from` has for `to`; rooted and gathering ones have the same for all. */
static int share(const Case *c, int from, int to)
{
    switch (c->kind) {
    case GATHERV:
    case ALLGATHERV:
        return from % 3 == 1 ? 0 : from % 2 ? c->n / 2 : c->n;
    case SCATTERV:
        return to % 3 == 1 ? 0 : to % 2 ? c->n / 2 : c->n;
    case ALLTOALLV:
    case ALLTOALLW:
        return (from + to) % 4 == 1 ? 0 : (from * to) % 2 ? c->n / 2 : c->n;
    case REDUCE_SCATTER:
        return to % 3 == 1 ? 0 : to % 2 ? c->n / 2 : c->n;
    default:
        return c->n;
    }
}

static int sends(const Case *c)
{
    int me = c->w->rank == c->root;
    return c->kind == BARRIER ? 0 : c->kind == BCAST || c->kind == SCATTER || c->kind == SCATTERV ? me : 1;
}

static int receives(const Case *c)
{
    int me = c->w->rank == c->root;
    return c->kind == BARRIER ? 0 : c->kind == GATHER || c->kind == GATHERV || c->kind == REDUCE ? me : 1;
}

/* Whether this rank passes MPI_IN_PLACE. */
static int here(const Case *c)
{
    int rooted = c->kind == GATHER || c->kind == GATHERV || c->kind == SCATTER || c->kind == SCATTERV || c->kind == REDUCE;
    return c->in_place && c->kind > BCAST && (!rooted || c->w->rank == c->root);
}

static int per_peer(const Case *c, int out)
{
    switch (c->kind) {
    case GATHER:
    case GATHERV:
    case ALLGATHER:
    case ALLGATHERV:
        return !out;
    case SCATTER:
    case SCATTERV:
        return out;
    default:
        return c->kind >= ALLTOALL && c->kind <= ALLTOALLW;
    }
}

/* Blocks lie in reverse order, with room for one more unit between them; those of the plain forms side by side. */
static size_t lay(const Case *c, int out, int *counts, int *places, MPI_Count *counts_c, MPI_Aint *places_c)
{
    int v = c->kind == GATHERV || c->kind == SCATTERV || c->kind == ALLGATHERV || c->kind == ALLTOALLV || c->kind == ALLTOALLW;
    size_t at = 0;
    for (int k = 0; k < c->w->size; k++) {
        int r = v ? c->w->size - 1 - k : k, n = out ? share(c, c->w->rank, r) : share(c, r, c->w->rank);
        size_t unit = c->shape.gaps ? 3 : 1, bytes = c->shape.gaps ? 5 * sizeof(int) : sizeof(int);
        counts[r] = units(c->shape, n);
        places[r] = (int)(at / unit * (c->kind == ALLTOALLW ? bytes : 1));
        counts_c[r] = counts[r];
        places_c[r] = places[r];
        at += (size_t)n + (v ? 3 : 0);
    }
    return at;
}

/* Where, in integers of data, the block of peer r begins. */
static size_t begin(const Case *c, const int *places, int r)
{
    size_t unit = c->shape.gaps ? 3 : 1, bytes = c->shape.gaps ? 5 * sizeof(int) : sizeof(int);
    return (size_t)places[r] / (c->kind == ALLTOALLW ? bytes : 1) * unit;
}

/* One initialisation in its plain or its large form. */
#define INIT(c, f, ...) \
    do { \
        if ((c)->large) \
            OK(f##_c(__VA_ARGS__, info, &(c)->request)); \
        else \
            OK(f(__VA_ARGS__, info, &(c)->request)); \
    } while (0)

static void init_moving(Case *c, MPI_Comm comm, MPI_Info info)
{
    const World *w = c->w;
    MPI_Datatype t = c->shape.type;
    const void *out = here(c) && c->kind != SCATTER && c->kind != SCATTERV ? MPI_IN_PLACE : c->out;
    void *in = here(c) && (c->kind == SCATTER || c->kind == SCATTERV) ? MPI_IN_PLACE : c->in;
    int n = units(c->shape, c->n);
    int mine_out = units(c->shape, share(c, w->rank, 0)), mine_in = units(c->shape, share(c, 0, w->rank));
    switch (c->kind) {
    case BARRIER:
        OK(MPI_Barrier_init(comm, info, &c->request));
        break;
    case BCAST:
        INIT(c, MPI_Bcast_init, c->in, n, t, c->root, comm);
        break;
    case GATHER:
        INIT(c, MPI_Gather_init, out, n, t, in, n, t, c->root, comm);
        break;
    case GATHERV:
        if (c->large)
            OK(MPI_Gatherv_init_c(out, mine_out, t, in, c->in_counts_c, c->in_places_c, t, c->root, comm, info, &c->request));
        else
            OK(MPI_Gatherv_init(out, mine_out, t, in, c->in_counts, c->in_places, t, c->root, comm, info, &c->request));
        break;
    case SCATTER:
        INIT(c, MPI_Scatter_init, out, n, t, in, n, t, c->root, comm);
        break;
    case SCATTERV:
        if (c->large)
            OK(MPI_Scatterv_init_c(out, c->out_counts_c, c->out_places_c, t, in, mine_in, t, c->root, comm, info, &c->request));
        else
            OK(MPI_Scatterv_init(out, c->out_counts, c->out_places, t, in, mine_in, t, c->root, comm, info, &c->request));
        break;
    case ALLGATHER:
        INIT(c, MPI_Allgather_init, out, n, t, in, n, t, comm);
        break;
    case ALLGATHERV:
        if (c->large)
            OK(MPI_Allgatherv_init_c(out, mine_out, t, in, c->in_counts_c, c->in_places_c, t, comm, info, &c->request));
        else
            OK(MPI_Allgatherv_init(out, mine_out, t, in, c->in_counts, c->in_places, t, comm, info, &c->request));
        break;
    case ALLTOALL:
        INIT(c, MPI_Alltoall_init, out, n, t, in, n, t, comm);
        break;
    case ALLTOALLV:
        if (c->large)
            OK(MPI_Alltoallv_init_c(out, c->out_counts_c, c->out_places_c, t, in, c->in_counts_c, c->in_places_c, t, comm, info,
                                    &c->request));
        else
            OK(MPI_Alltoallv_init(out, c->out_counts, c->out_places, t, in, c->in_counts, c->in_places, t, comm, info,
                                  &c->request));
        break;
    default:
        for (int r = 0; r < w->size; r++)
            c->out_types[r] = c->in_types[r] = t;
        if (c->large)
            OK(MPI_Alltoallw_init_c(out, c->out_counts_c, c->out_places_c, c->out_types, in, c->in_counts_c, c->in_places_c,
                                    c->in_types, comm, info, &c->request));
        else
            OK(MPI_Alltoallw_init(out, c->out_counts, c->out_places, c->out_types, in, c->in_counts, c->in_places, c->in_types,
                                  comm, info, &c->request));
    }
}

static void init_reducing(Case *c, MPI_Comm comm, MPI_Info info, MPI_Datatype t, MPI_Op op)
{
    const void *out = here(c) ? MPI_IN_PLACE : c->out;
    switch (c->kind) {
    case REDUCE:
        INIT(c, MPI_Reduce_init, out, c->in, c->n, t, op, c->root, comm);
        break;
    case ALLREDUCE:
        INIT(c, MPI_Allreduce_init, out, c->in, c->n, t, op, comm);
        break;
    case REDUCE_SCATTER:
        for (int r = 0; r < c->w->size; r++)
            c->in_counts_c[r] = c->in_counts[r] = share(c, 0, r);
        if (c->large)
            OK(MPI_Reduce_scatter_init_c(out, c->in, c->in_counts_c, t, op, comm, info, &c->request));
        else
            OK(MPI_Reduce_scatter_init(out, c->in, c->in_counts, t, op, comm, info, &c->request));
        break;
    case REDUCE_SCATTER_BLOCK:
        INIT(c, MPI_Reduce_scatter_block_init, out, c->in, c->n, t, op, comm);
        break;
    case SCAN:
        INIT(c, MPI_Scan_init, out, c->in, c->n, t, op, comm);
        break;
    default:
        INIT(c, MPI_Exscan_init, out, c->in, c->n, t, op, comm);
    }
}

/* Elements of a reduction's whole operand. */
static size_t operand(const Case *c)
{
    size_t total = 0;
    if (c->kind != REDUCE_SCATTER && c->kind != REDUCE_SCATTER_BLOCK)
        return (size_t)c->n;
    for (int r = 0; r < c->w->size; r++)
        total += (size_t)share(c, 0, r);
    return total;
}

/* The types and the operation are freed at once. */
static void init(Case *c, MPI_Comm comm)
{
    MPI_Info info = MPI_INFO_NULL;
    if (c->id % 3 == 1) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "no_such_hint", "true"));
    }
    if (is_reduction(c)) {
        MPI_Datatype type = MPI_UINT32_T;
        MPI_Op op = MPI_SUM;
        if (c->words == 2) {
            OK(MPI_Type_contiguous(2, MPI_UINT32_T, &type));
            OK(MPI_Type_commit(&type));
            OK(MPI_Op_create(affine, 0, &op));
        }
        c->out_room = c->in_room = operand(c) * (size_t)c->words;
        c->out = ints(c->out_room);
        c->in = ints(c->in_room);
        init_reducing(c, comm, info, type, op);
        if (c->words == 2) {
            OK(MPI_Type_free(&type));
            OK(MPI_Op_free(&op));
        }
    } else {
        MPI_Datatype kept = c->shape.type;
        size_t out = lay(c, 1, c->out_counts, c->out_places, c->out_counts_c, c->out_places_c);
        size_t in = lay(c, 0, c->in_counts, c->in_places, c->in_counts_c, c->in_places_c);
        c->out_room = room(c->shape, per_peer(c, 1) ? out : (size_t)c->n);
        c->in_room = room(c->shape, per_peer(c, 0) ? in : (size_t)c->n);
        c->out = ints(c->out_room);
        c->in = ints(c->in_room);
        OK(MPI_Type_dup(kept, &c->shape.type));
        init_moving(c, comm, info);
        OK(MPI_Type_free(&c->shape.type));
        c->shape.type = kept;
    }
    if (info != MPI_INFO_NULL)
        OK(MPI_Info_free(&info));
}

static Case *make(const World *w, MPI_Comm comm, int kind, int n, int root, int variant, int id)
{
    Case *c = t_alloc(sizeof *c);
    int gaps = variant >> 1 & 1;
    memset(c, 0, sizeof *c);
    *c = (Case){.w = w, .kind = kind, .n = n, .root = root, .in_place = variant & 1, .large = id % 2, .id = id,
                .shape = shape_of(gaps ? GAPS : DENSE, 0), .words = 1 + gaps, .request = MPI_REQUEST_NULL};
    init(c, comm);
    CHECK(c->request != MPI_REQUEST_NULL);
    return c;
}

static void unmake(Case *c)
{
    OK(MPI_Request_free(&c->request));
    CHECK(c->request == MPI_REQUEST_NULL);
    free(c->out);
    free(c->in);
    free(c);
}

/* The data of one round; what was there before must not show. */
static void fill(Case *c, int round)
{
    const World *w = c->w;
    sequence = (unsigned)(c->id * 1009 + round);
    for (size_t i = 0; i < c->out_room; i++)
        c->out[i] = -77777;
    for (size_t i = 0; i < c->in_room; i++)
        c->in[i] = -77777;
    if (!sends(c))
        return;
    if (is_reduction(c)) {
        int *memory = here(c) ? c->in : c->out;
        for (size_t i = 0; i < operand(c) * (size_t)c->words; i++)
            memory[i] = datum(w->rank, i);
    } else if (c->kind == BCAST) {
        put(c->in, c->shape, 0, (size_t)c->n, w->rank, 0);
    } else if (per_peer(c, 1)) {
        int *memory = here(c) && c->kind >= ALLTOALL ? c->in : c->out;
        for (int r = 0; r < w->size; r++)
            put(memory, c->shape, begin(c, c->out_places, r), (size_t)share(c, w->rank, r), w->rank, (size_t)r * 1000003);
    } else {
        int *memory = here(c) ? c->in : c->out;
        put(memory, c->shape, here(c) ? begin(c, c->in_places, w->rank) : 0, (size_t)share(c, w->rank, 0), w->rank, 0);
    }
}

static void verify_reduced(const Case *c)
{
    const World *w = c->w;
    size_t first = 0, n = (size_t)share(c, 0, w->rank);
    int last = c->kind == SCAN ? w->rank : c->kind == EXSCAN ? w->rank - 1 : w->size - 1;
    if (c->kind == REDUCE_SCATTER || c->kind == REDUCE_SCATTER_BLOCK)
        for (int r = 0; r < w->rank; r++)
            first += (size_t)share(c, 0, r);
    for (size_t i = 0; last >= 0 && i < n; i++) {
        uint32_t want[2] = {0, 0}, next[2] = {0, 0};
        for (int r = 0; r <= last; r++) {
            for (int j = 0; j < c->words; j++)
                next[j] = (uint32_t)datum(r, (first + i) * (size_t)c->words + (size_t)j);
            if (r == 0)
                memcpy(want, next, sizeof want);
            else if (c->words == 1)
                want[0] += next[0];
            else
                compose(want, next, want);
        }
        for (int j = 0; j < c->words; j++)
            SAME((uint32_t)c->in[i * (size_t)c->words + (size_t)j], want[j]);
    }
}

static void verify(const Case *c, int round)
{
    const World *w = c->w;
    sequence = (unsigned)(c->id * 1009 + round);
    if (!receives(c))
        return;
    SAME(c->in[c->in_room], -77777);
    if (is_reduction(c)) {
        verify_reduced(c);
    } else if (c->kind == BCAST) {
        SEE(w, c->in, c->shape, 0, (size_t)c->n, c->root, 0);
    } else if (c->kind == SCATTER || c->kind == SCATTERV) {
        if (!here(c))
            SEE(w, c->in, c->shape, 0, (size_t)share(c, c->root, w->rank), c->root, (size_t)w->rank * 1000003);
    } else {
        size_t each = c->kind >= ALLTOALL ? (size_t)w->rank * 1000003 : 0;
        for (int r = 0; r < w->size; r++)
            SEE(w, c->in, c->shape, begin(c, c->in_places, r), (size_t)share(c, r, w->rank), r, each);
    }
}

/* An inactive request is at once complete, with an empty status. */
static void inactive(MPI_Request *request)
{
    int flag = 0, index = 0, count = -1;
    MPI_Status status;
    status.MPI_SOURCE = 77;
    OK(MPI_Test(request, &flag, &status));
    CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    OK(MPI_Wait(request, &status));
    CHECK(*request != MPI_REQUEST_NULL);
    flag = 0;
    OK(MPI_Request_get_status(*request, &flag, &status));
    CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE);
    flag = 0;
    OK(MPI_Testany(1, request, &index, &flag, &status));
    CHECK(flag && index == MPI_UNDEFINED);
    OK(MPI_Waitsome(1, request, &count, &index, MPI_STATUSES_IGNORE));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    SAME(count, 0);
}

/* One is complete, in one way or another; it stays a request. */
static void complete(MPI_Request *request, int way)
{
    int flag = 0, index = -1, count = 0;
    MPI_Status status;
    switch (way % ways) {
    case 0:
        OK(MPI_Wait(request, &status));
        break;
    case 1:
        while (!flag)
            OK(MPI_Test(request, &flag, &status));
        break;
    case 2:
        OK(MPI_Waitall(1, request, MPI_STATUSES_IGNORE));
        break;
    case 3:
        while (count == 0)
            OK(MPI_Testsome(1, request, &count, &index, MPI_STATUSES_IGNORE));
        CHECK(count == 1 && index == 0);
        break;
    default:
        while (!flag)
            OK(MPI_Request_get_status(*request, &flag, &status));
        OK(MPI_Waitany(1, request, &index, &status));
        SAME(index, 0);
    }
    CHECK(*request != MPI_REQUEST_NULL);
}

/* Every kind by itself: four starts (long ones two), with other collectives of the same communicator before, during and after. */
static void alone(const World *w)
{
    static const int sizes[] = {0, 6, 600, 30000};
    int id = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int size = 0; size < 4; size++)
            for (int variant = 0; variant < 4; variant += size == 3 ? 3 : 1) {
                int root = id % 2 ? w->size - 1 : 0, one = 1, sum = 0;
                Case *c = make(w, w->comm, kind, sizes[size], root, variant, ++id);
                inactive(&c->request);
                for (int round = 0; round < (size == 3 ? 2 : 4); round++) {
                    MPI_Request other;
                    fill(c, round);
                    OK(MPI_Start(&c->request));
                    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, w->comm, &other));
                    if (round == 2)
                        OK(MPI_Barrier(w->comm));
                    if (round % 2)
                        OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
                    complete(&c->request, id + round);
                    OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
                    SAME(sum, w->size);
                    verify(c, round);
                }
                inactive(&c->request);
                unmake(c);
            }
}

/* Starts those of the set in an order of this rank's own, some with MPI_Startall. */
static void start_mixed(Case **cases, int n, const int *on, int round, int rank)
{
    MPI_Request some[64];
    int which[64], left = 0, step = rank % 2 ? n - 1 : 1, at = (rank * 7 + round) % n;
    for (int k = 0; k < n; k++, at = (at + step) % n) {
        if (!on[at])
            continue;
        if ((at + round + rank) % 3) {
            OK(MPI_Start(&cases[at]->request));
        } else {
            some[left] = cases[at]->request;
            which[left++] = at;
        }
    }
    OK(MPI_Startall(left, some));
    for (int k = 0; k < left; k++)
        CHECK(some[k] == cases[which[k]]->request);
}

static void complete_mixed(Case **cases, int n, const int *on, int round)
{
    MPI_Request all[64];
    int left = 0, index, indices[64], count, flag = 0;
    for (int k = 0; k < n; k++) {
        all[k] = cases[k]->request;
        left += on[k];
    }
    if (round % 4 == 0) {
        OK(MPI_Waitall(n, all, MPI_STATUSES_IGNORE));
    } else if (round % 4 == 1) {
        for (; left; left--) {
            OK(MPI_Waitany(n, all, &index, MPI_STATUS_IGNORE));
            CHECK(index >= 0 && index < n && on[index]);
        }
        OK(MPI_Waitany(n, all, &index, MPI_STATUS_IGNORE));
        SAME(index, MPI_UNDEFINED);
    } else if (round % 4 == 2) {
        while (left) {
            OK(MPI_Waitsome(n, all, &count, indices, MPI_STATUSES_IGNORE));
            CHECK(count > 0 && count <= left);
            left -= count;
        }
    } else {
        while (!flag)
            OK(MPI_Testall(n, all, &flag, MPI_STATUSES_IGNORE));
    }
    for (int k = 0; k < n; k++)
        CHECK(all[k] == cases[k]->request);
}

static void rounds_together(const World *w, Case **cases, int n)
{
    for (int round = 0; round < 8; round++) {
        int on[64], one = 1, sum = 0, got = -1, right = (w->rank + 1) % w->size, left = (w->rank + w->size - 1) % w->size;
        for (int k = 0; k < n; k++) {
            on[k] = (k + round) % 5 != 0;
            if (on[k])
                fill(cases[k], round);
        }
        start_mixed(cases, n, on, round, w->rank);
        if (w->comm != MPI_COMM_NULL) {
            OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, w->comm));
            SAME(sum, w->size);
            OK(MPI_Sendrecv(&w->rank, 1, MPI_INT, right, 3, &got, 1, MPI_INT, left, 3, w->comm, MPI_STATUS_IGNORE));
            SAME(got, left);
        }
        complete_mixed(cases, n, on, round);
        for (int k = 0; k < n; k++)
            if (on[k])
                verify(cases[k], round);
    }
}

/* Two of each kind under way at once. */
static void together(const World *w, int n, MPI_Comm *to_free)
{
    Case *cases[2 * KINDS];
    MPI_Comm comm = to_free ? *to_free : w->comm;
    for (int k = 0; k < 2 * KINDS; k++)
        cases[k] = make(w, comm, k % KINDS, k < KINDS ? n : n * 10, k % w->size, (k + k / KINDS) % 4, k);
    if (to_free)
        OK(MPI_Comm_free(to_free));
    rounds_together(w, cases, 2 * KINDS);
    for (int k = 0; k < 2 * KINDS; k++)
        unmake(cases[(k * 5) % (2 * KINDS)]);
}

/* More initialisations than a small counter holds, while others stay; each rank frees when it likes. */
static void numbers(const World *w)
{
    enum { STAY = 3, MANY = 40000, LATE = 11 };
    Case *stay[STAY];
    MPI_Request late[LATE];
    int on[STAY] = {1, 1, 1}, used = 0, held = w->rank % 2 ? LATE : 2;
    for (int k = 0; k < STAY; k++)
        stay[k] = make(w, w->comm, k == 0 ? ALLREDUCE : k == 1 ? BARRIER : ALLTOALL, 60, 0, 0, k);
    for (int k = 0; k < LATE; k++)
        late[k] = MPI_REQUEST_NULL;
    for (int i = 0; i < MANY; i++) {
        int out = i, in = -1, round = i % 1000;
        MPI_Request *r = &late[used];
        used = (used + 1) % held;
        if (*r != MPI_REQUEST_NULL)
            OK(MPI_Request_free(r));
        OK(MPI_Allreduce_init(&out, &in, 1, MPI_INT, MPI_MAX, w->comm, MPI_INFO_NULL, r));
        if (i % 997 && i < MANY - 50)
            continue;
        for (int k = 0; k < STAY; k++)
            fill(stay[k], round);
        if (w->rank % 2)
            OK(MPI_Start(r));
        start_mixed(stay, STAY, on, round, w->rank);
        if (w->rank % 2 == 0)
            OK(MPI_Start(r));
        complete_mixed(stay, STAY, on, round);
        OK(MPI_Wait(r, MPI_STATUS_IGNORE));
        SAME(in, i);
        for (int k = 0; k < STAY; k++)
            verify(stay[k], round);
    }
    for (int k = 0; k < LATE; k++)
        if (late[k] != MPI_REQUEST_NULL)
            OK(MPI_Request_free(&late[k]));
    for (int k = 0; k < STAY; k++)
        unmake(stay[k]);
}

/* What is wrong says so. */
static void errors(const World *w)
{
    int out[64] = {0}, in[64] = {0}, counts[64], places[64] = {0};
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Info no_info = MPI_INFO_NULL;
    MPI_Comm comm;
    MPI_Datatype loose;
    OK(MPI_Comm_dup(w->comm, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Type_contiguous(2, MPI_INT, &loose));
    for (int k = 0; k < 64; k++)
        counts[k] = k == w->size - 1 ? -1 : 1;
    FAILS(MPI_Barrier_init(MPI_COMM_NULL, no_info, &r), MPI_ERR_COMM);
    FAILS(MPI_Bcast_init(in, -1, MPI_INT, 0, comm, no_info, &r), MPI_ERR_COUNT);
    FAILS(MPI_Bcast_init(in, 1, MPI_DATATYPE_NULL, 0, comm, no_info, &r), MPI_ERR_TYPE);
    FAILS(MPI_Bcast_init(in, 1, loose, 0, comm, no_info, &r), MPI_ERR_TYPE);
    FAILS(MPI_Bcast_init(in, 1, MPI_INT, w->size, comm, no_info, &r), MPI_ERR_ROOT);
    FAILS(MPI_Bcast_init(NULL, 1, MPI_INT, 0, comm, no_info, &r), MPI_ERR_BUFFER);
    FAILS(MPI_Gather_init(out, 1, MPI_INT, in, 1, MPI_INT, -1, comm, no_info, &r), MPI_ERR_ROOT);
    FAILS(MPI_Allgatherv_init(out, 1, MPI_INT, in, counts, places, MPI_INT, comm, no_info, &r), MPI_ERR_COUNT);
    FAILS(MPI_Alltoall_init(in, 1, MPI_INT, in, 1, MPI_INT, comm, no_info, &r), MPI_ERR_BUFFER);
    FAILS(MPI_Allreduce_init(out, in, 1, MPI_INT, MPI_OP_NULL, comm, no_info, &r), MPI_ERR_OP);
    FAILS(MPI_Allreduce_init(out, in, 1, MPI_FLOAT, MPI_BAND, comm, no_info, &r), MPI_ERR_OP);
    FAILS(MPI_Reduce_scatter_init(out, in, counts, MPI_INT, MPI_SUM, comm, no_info, &r), MPI_ERR_COUNT);
    CHECK(r == MPI_REQUEST_NULL);
    OK(MPI_Type_free(&loose));

    OK(MPI_Allreduce_init(out, in, 1, MPI_INT, MPI_SUM, comm, no_info, &r));
    FAILS(MPI_Cancel(&r), MPI_ERR_REQUEST);
    OK(MPI_Start(&r));
    FAILS(MPI_Start(&r), MPI_ERR_REQUEST);
    FAILS(MPI_Startall(1, &r), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&r), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&r), MPI_ERR_REQUEST);
    CHECK(r != MPI_REQUEST_NULL);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r));
    FAILS(MPI_Start(&r), MPI_ERR_REQUEST);
    OK(MPI_Iallreduce(out, in, 1, MPI_INT, MPI_SUM, comm, &r));
    FAILS(MPI_Start(&r), MPI_ERR_REQUEST);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&comm));
}

static void try(const World *w, const char *what)
{
    if (strcmp(what, "alone") == 0)
        alone(w);
    else if (strcmp(what, "together") == 0)
        together(w, 60, NULL), together(w, 3000, NULL);
    else if (strcmp(what, "numbers") == 0)
        numbers(w);
    else if (strcmp(what, "errors") == 0)
        errors(w);
    else if (strcmp(what, "freed") == 0) {
        MPI_Comm comm;
        World named = *w;
        named.comm = MPI_COMM_NULL;
        OK(MPI_Comm_dup(w->comm, &comm));
        together(&named, 60, &comm);
        CHECK(comm == MPI_COMM_NULL);
    } else
        t_fail(__FILE__, __LINE__, "no such test: %s", what);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "together";
    if (argc > 2 && strcmp(argv[2], "plain") == 0)
        ways = 4;
    World w = {MPI_COMM_WORLD, t_rank, t_size, "world"};
    coll_types();
    CHECK(t_size <= MOST);
    try(&w, what);
    if (t_size > 1 && strcmp(what, "numbers") != 0) {
        World other = {MPI_COMM_NULL, 0, 0, "halves, reversed"};
        OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, -t_rank, &other.comm));
        OK(MPI_Comm_rank(other.comm, &other.rank));
        OK(MPI_Comm_size(other.comm, &other.size));
        try(&other, what);
        OK(MPI_Comm_free(&other.comm));
    }
    OK(MPI_Type_free(&gaps_type));
    return t_done("coll_persist");
}
