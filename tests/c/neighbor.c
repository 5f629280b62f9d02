/* Neighbourhood collectives in all forms on grids, graphs and distributed graphs, also where a neighbour is there several
 * times, is oneself, or is nobody; sizes from nothing to the cap, contiguous and derived types.
 *
 * Arguments: [largest block in bytes, default 64 KiB] [several | single]
 * ("single" has no two edges between the same two processes but for grids: in which order their messages match is
 * not the same in all implementations.)
 */
#include "coll.h"

enum { MOST = 16, LINKS = 64, STARTS = 4 };

typedef struct {
    World w;
    int ins, outs, source[LINKS], target[LINKS];
    int slot[LINKS]; /* where the source has what comes from it, among its destinations */
} Place;

/* MPI_UNWEIGHTED: gcc warns of constant addresses that are passed for arrays. */
static int *volatile unweighted;
static unsigned seed;
static int several = 1;

/* The same numbers on all ranks. */
static int pick(int below)
{
    seed = seed * 1103515245u + 12345u;
    return (int)(seed >> 16) % below;
}

/* What `from` sends from its slot. */
static int share(int from, int slot, int n)
{
    return (from + slot + (int)sequence) % 4 == 0 ? 0 : (from + slot) % 2 ? n / 6 * 3 : n;
}

static size_t first_of(int slot)
{
    return (size_t)slot * 1000003;
}

/* The arguments of the two sides of an exchange with a block for each neighbour. */
typedef struct {
    int counts[LINKS], places[LINKS];
    MPI_Aint bytes[LINKS];
    MPI_Datatype types[LINKS];
    Shape shapes[LINKS];
    size_t from[LINKS], total;
    int *memory;
} Side;

/* Blocks lie in reverse order in a unit that all shapes share: 5 integers of memory for 3 of data. */
static void lay(Side *s, const Place *p, int out, int n, int shape, int gather, int typed)
{
    int many = out ? p->outs : p->ins;
    s->total = 0;
    for (int k = many - 1; k >= 0; k--) {
        int who = out ? p->w.rank : p->source[k], slot = gather ? 0 : out ? k : p->slot[k];
        int length = (out ? p->target[k] : p->source[k]) == MPI_PROC_NULL ? n : share(who, slot, n);
        s->shapes[k] = shape_of(shape, p->w.rank + !out + (typed ? k : 0));
        /* A block of nothing needs no type. */
        s->types[k] = length > 0 ? s->shapes[k].type : MPI_DATATYPE_NULL;
        s->counts[k] = units(s->shapes[k], length);
        s->from[k] = s->total;
        s->total += ((size_t)length / 3 + 1) * 5;
        s->places[k] = (int)(s->shapes[k].gaps ? s->from[k] / 5 : s->from[k]);
        s->bytes[k] = (MPI_Aint)(s->from[k] * sizeof(int));
    }
    s->memory = ints(s->total);
}

static void gathering(const Place *p, int n, int shape, int form, int v)
{
    const World *w = &p->w;
    Shape out_shape = shape_of(shape, w->rank), in_shape = shape_of(shape, w->rank + 1);
    Side in;
    int mine = v ? share(w->rank, 0, n) : n;
    int *out = ints(room(out_shape, (size_t)mine));
    put(out, out_shape, 0, (size_t)mine, w->rank, 0);
    if (v) {
        lay(&in, p, 0, n, shape, 1, 0);
        CALL(form, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, out, units(out_shape, mine), out_shape.type, in.memory,
             in.counts, in.places, in_shape.type, w->comm);
    } else {
        in.memory = ints(in.total = room(in_shape, (size_t)n * (size_t)p->ins));
        CALL(form, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, out, units(out_shape, n), out_shape.type, in.memory,
             units(in_shape, n), in_shape.type, w->comm);
    }
    for (int k = 0; k < p->ins; k++) {
        int *block = in.memory + (v ? in.from[k] : room(in_shape, (size_t)k * (size_t)n));
        if (p->source[k] != MPI_PROC_NULL)
            SEE(w, block, in_shape, 0, (size_t)(v ? share(p->source[k], 0, n) : n), p->source[k], 0);
        else if (n > 0)
            SAME(block[0], -77777);
    }
    SAME(in.memory[in.total], -77777);
    free(out);
    free(in.memory);
}

static void exchanging(const Place *p, int n, int shape, int form)
{
    const World *w = &p->w;
    Shape out_shape = shape_of(shape, w->rank), in_shape = shape_of(shape, w->rank + 1);
    size_t un = (size_t)n;
    int *out = ints(room(out_shape, un * (size_t)p->outs)), *in = ints(room(in_shape, un * (size_t)p->ins));
    for (int k = 0; k < p->outs; k++)
        put(out, out_shape, (size_t)k * un, un, w->rank, first_of(k));
    CALL(form, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, out, units(out_shape, n), out_shape.type, in, units(in_shape, n),
         in_shape.type, w->comm);
    for (int k = 0; k < p->ins; k++)
        if (p->source[k] != MPI_PROC_NULL)
            SEE(w, in, in_shape, (size_t)k * un, un, p->source[k], first_of(p->slot[k]));
        else if (n > 0)
            SAME(in[place(in_shape, (size_t)k * un)], -77777);
    EDGES(w, in, in_shape, un * (size_t)p->ins);
    free(out);
    free(in);
}

static void fill(const Place *p, Side *out, int n)
{
    for (int k = 0; k < p->outs; k++)
        if (p->target[k] != MPI_PROC_NULL)
            put(out->memory + out->from[k], out->shapes[k], 0, (size_t)share(p->w.rank, k, n), p->w.rank, first_of(k));
}

static void verify(const Place *p, const Side *in, int n)
{
    for (int k = 0; k < p->ins; k++)
        if (p->source[k] != MPI_PROC_NULL)
            SEE(&p->w, in->memory + in->from[k], in->shapes[k], 0, (size_t)share(p->source[k], p->slot[k], n), p->source[k],
                first_of(p->slot[k]));
        else
            SAME(in->memory[in->from[k]], -77777);
    SAME(in->memory[in->total], -77777);
}

static void exchanging_v(const Place *p, int n, int shape, int form, int typed)
{
    const World *w = &p->w;
    Side out, in;
    lay(&out, p, 1, n, shape, 0, typed);
    lay(&in, p, 0, n, shape, 0, typed);
    fill(p, &out, n);
    /* Displacements in bytes may be addresses. */
    int absolute = typed && sequence % 2;
    if (absolute) {
        for (int k = 0; k < p->outs; k++)
            OK(MPI_Get_address((char *)out.memory + out.bytes[k], &out.bytes[k]));
        for (int k = 0; k < p->ins; k++)
            OK(MPI_Get_address((char *)in.memory + in.bytes[k], &in.bytes[k]));
    }
    if (typed)
        CALL(form, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, absolute ? MPI_BOTTOM : out.memory, out.counts, out.bytes,
             out.types, absolute ? MPI_BOTTOM : in.memory, in.counts, in.bytes, in.types, w->comm);
    else
        CALL(form, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, out.memory, out.counts, out.places,
             shape_of(shape, w->rank).type, in.memory, in.counts, in.places, shape_of(shape, w->rank + 1).type, w->comm);
    verify(p, &in, n);
    free(out.memory);
    free(in.memory);
}

/* Several under way at once, the persistent one started again and again with other data, also after its communicator is
 * freed; completed out of order. */
static void outstanding(const Place *p, int n)
{
    const World *w = &p->w;
    size_t un = (size_t)n;
    Side out, in;
    MPI_Request r[3];
    MPI_Comm copy;
    Shape dense = shape_of(DENSE, 0);
    unsigned kept = sequence;
    int *mine = ints(un), *gathered = ints(un * (size_t)p->ins);
    int *each = ints(un * (size_t)p->outs), *all = ints(un * (size_t)p->ins);
    OK(MPI_Comm_dup(w->comm, &copy));
    lay(&out, p, 1, n, MIXED, 0, 1);
    lay(&in, p, 0, n, MIXED, 0, 1);
    OK(MPI_Neighbor_alltoallw_init(out.memory, out.counts, out.bytes, out.types, in.memory, in.counts, in.bytes, in.types, copy,
                                   MPI_INFO_NULL, &r[0]));
    OK(MPI_Neighbor_allgather_init(mine, n, MPI_INT, gathered, n, MPI_INT, copy, MPI_INFO_NULL, &r[1]));
    OK(MPI_Comm_free(&copy));
    for (int start = 0; start < STARTS; start++) {
        /* The lengths stay, so the sequence moves by what they repeat after. */
        sequence = kept + 4 * (unsigned)start;
        fill(p, &out, n);
        put(mine, dense, 0, un, w->rank, 0);
        for (int k = 0; k < p->outs; k++)
            put(each, dense, (size_t)k * un, un, w->rank, first_of(k));
        OK(MPI_Start(&r[(w->rank + start) % 2]));
        OK(MPI_Ineighbor_alltoall(each, n, MPI_INT, all, n, MPI_INT, w->comm, &r[2]));
        OK(MPI_Start(&r[(w->rank + start + 1) % 2]));
        OK(MPI_Wait(&r[2], MPI_STATUS_IGNORE));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        verify(p, &in, n);
        for (int k = 0; k < p->ins; k++)
            if (p->source[k] != MPI_PROC_NULL) {
                SEE(w, gathered, dense, (size_t)k * un, un, p->source[k], 0);
                SEE(w, all, dense, (size_t)k * un, un, p->source[k], first_of(p->slot[k]));
            }
    }
    sequence = kept;
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
    free(out.memory), free(in.memory), free(gathered), free(mine), free(all), free(each);
}

static void everything(const Place *p, long cap)
{
    static const long sizes[] = {0, 12, 600, 6144, 49152, 393216};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes) && sizes[i] <= cap; i++) {
        int n = (int)(sizes[i] / 12 * 3);
        /* where only short blocks are tried, only the most varied types */
        for (int shape = cap > 1000 ? DENSE : MIXED; shape < SHAPES; shape++)
            for (int form = 0; form < FORMS; form++) {
                sequence++;
                gathering(p, n, shape, form, 0);
                sequence++;
                gathering(p, n, shape, form, 1);
                sequence++;
                exchanging(p, n, shape, form);
                sequence++;
                exchanging_v(p, n, shape, form, 0);
                sequence++;
                exchanging_v(p, n, shape, form, 1);
            }
        sequence++;
        outstanding(p, n);
    }
}

static Place at(MPI_Comm comm, const char *name)
{
    Place p;
    memset(&p, 0, sizeof p);
    p.w = (World){comm, 0, 0, name};
    OK(MPI_Comm_rank(comm, &p.w.rank));
    OK(MPI_Comm_size(comm, &p.w.size));
    return p;
}

/* The n-th edge between two processes is the n-th for both: where in the source's list each of ours stands. */
static void find_slots(Place *p)
{
    static int lists[MOST][LINKS + 1];
    int mine[LINKS + 1] = {p->outs};
    memcpy(mine + 1, p->target, sizeof p->target);
    OK(MPI_Allgather(mine, LINKS + 1, MPI_INT, lists, LINKS + 1, MPI_INT, p->w.comm));
    for (int k = 0; k < p->ins; k++) {
        const int *list = lists[p->source[k]];
        int before = 0, slot = 0;
        for (int j = 0; j < k; j++)
            before += p->source[j] == p->source[k];
        for (; slot < list[0]; slot++)
            if (list[slot + 1] == p->w.rank && before-- == 0)
                break;
        CHECK(slot < list[0]);
        p->slot[k] = slot;
    }
}

/* What goes down a dimension comes from above. */
static void on_grid(MPI_Comm old, int ndims, const int *wanted, int rings, long cap)
{
    MPI_Comm comm;
    int size, dims[4] = {0}, periods[4];
    OK(MPI_Comm_size(old, &size));
    for (int d = 0; d < ndims; d++) {
        dims[d] = wanted[d];
        periods[d] = rings >> d & 1;
    }
    OK(MPI_Dims_create(size, ndims, dims));
    OK(MPI_Cart_create(old, ndims, dims, periods, 0, &comm));
    Place p = at(comm, "grid");
    p.ins = p.outs = 2 * ndims;
    for (int d = 0; d < ndims; d++) {
        int down, up;
        OK(MPI_Cart_shift(comm, d, 1, &down, &up));
        p.source[2 * d] = p.target[2 * d] = down;
        p.source[2 * d + 1] = p.target[2 * d + 1] = up;
        p.slot[2 * d] = 2 * d + 1;
        p.slot[2 * d + 1] = 2 * d;
    }
    everything(&p, cap);
    OK(MPI_Comm_free(&comm));
}

static int is_new(int n, int (*ends)[2], int a, int b, int directed)
{
    for (int i = 0; i < n; i++)
        if ((ends[i][0] == a && ends[i][1] == b) || (!directed && ends[i][0] == b && ends[i][1] == a))
            return 0;
    return 1;
}

static void on_graph(MPI_Comm old, int edges, long cap)
{
    MPI_Comm comm;
    int size, ends[LINKS][2], n = 0, index[MOST], list[2 * LINKS], total = 0;
    OK(MPI_Comm_size(old, &size));
    for (int i = 0; i < edges; i++) {
        int a = pick(size), b = pick(size);
        if (several || (a != b && is_new(n, ends, a, b, 0))) {
            ends[n][0] = a;
            ends[n++][1] = b;
        }
    }
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < n; i++)
            if (ends[i][0] == r)
                list[total++] = ends[i][1];
            else if (ends[i][1] == r)
                list[total++] = ends[i][0];
        index[r] = total;
    }
    OK(MPI_Graph_create(old, size, index, list, 0, &comm));
    Place p = at(comm, "graph");
    OK(MPI_Graph_neighbors_count(comm, p.w.rank, &p.ins));
    OK(MPI_Graph_neighbors(comm, p.w.rank, LINKS, p.source));
    memcpy(p.target, p.source, sizeof p.target);
    p.outs = p.ins;
    find_slots(&p);
    everything(&p, cap);
    OK(MPI_Comm_free(&comm));
}

/* The lists of a process are in an order of its own. */
static void shuffle(int n, int *list, int rank)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (i * 7 + rank * 3 + 1) % (i + 1), kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

static void on_dist_graph(MPI_Comm old, int edges, int adjacent, long cap)
{
    MPI_Comm comm;
    int rank, size, ends[LINKS][2], n = 0, ins = 0, outs = 0, from[LINKS], to[LINKS], ones[LINKS];
    OK(MPI_Comm_rank(old, &rank));
    OK(MPI_Comm_size(old, &size));
    for (int i = 0; i < edges; i++) {
        int a = pick(size), b = pick(size);
        if (several || is_new(n, ends, a, b, 1)) {
            ends[n][0] = a;
            ends[n++][1] = b;
        }
    }
    for (int i = 0; i < n; i++) {
        if (ends[i][1] == rank && adjacent)
            from[ins++] = ends[i][0];
        if (ends[i][0] == rank && adjacent)
            to[outs++] = ends[i][1];
        if (!adjacent && i % size == rank)
            from[outs] = ends[i][0], ones[outs] = 1, to[outs++] = ends[i][1];
    }
    if (adjacent) {
        shuffle(ins, from, rank);
        shuffle(outs, to, rank + 1);
        OK(MPI_Dist_graph_create_adjacent(old, ins, from, unweighted, outs, to, unweighted, MPI_INFO_NULL, 0, &comm));
    } else {
        OK(MPI_Dist_graph_create(old, outs, from, ones, to, unweighted, MPI_INFO_NULL, 0, &comm));
    }
    Place p = at(comm, adjacent ? "distributed graph, adjacent" : "distributed graph");
    int weighted;
    OK(MPI_Dist_graph_neighbors_count(comm, &p.ins, &p.outs, &weighted));
    OK(MPI_Dist_graph_neighbors(comm, LINKS, p.source, unweighted, LINKS, p.target, unweighted));
    find_slots(&p);
    everything(&p, cap);
    OK(MPI_Comm_free(&comm));
}

/* Rank 0 only sends and the others only receive, so one buffer can stand on both sides. */
static void one_buffer(void)
{
    MPI_Comm comm;
    int targets[MOST], data[MOST], root = 0, me = t_rank == 0;
    for (int r = 1; r < t_size; r++)
        targets[r - 1] = r;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, !me, &root, unweighted, me ? t_size - 1 : 0, targets, unweighted,
                                      MPI_INFO_NULL, 0, &comm));
    for (int form = 0; form < FORMS; form++) {
        for (int r = 0; r < MOST; r++)
            data[r] = me ? 100 * form + r : -1;
        CALL(form, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, data, 1, MPI_INT, data, 1, MPI_INT, comm);
        SAME(data[0], me ? 100 * form : 100 * form + t_rank - 1);
        CALL(form, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, data + 1, 1, MPI_INT, data + 1, 1, MPI_INT, comm);
        SAME(data[1], 100 * form + 1);
    }
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    unweighted = MPI_UNWEIGHTED;
    long cap = argc > 1 ? atol(argv[1]) : 65536, less = cap > 700 ? 700 : cap;
    several = argc <= 2 || strcmp(argv[2], "single") != 0;
    CHECK(t_size <= MOST);
    coll_types();
    one_buffer();
    static const int any[4] = {0}, thin[4] = {0, 1, 0, 1};
    for (int ndims = 1; ndims <= 3; ndims++)
        for (int rings = 0; rings < 1 << ndims; rings++)
            on_grid(MPI_COMM_WORLD, ndims, any, rings, rings == (1 << ndims) - 1 ? cap : less);
    on_grid(MPI_COMM_WORLD, 4, thin, 15, less);
    on_grid(MPI_COMM_SELF, 2, any, 3, less);
    seed = 3;
    for (int edges = 0; edges < 24; edges = 2 * edges + 1) {
        on_graph(MPI_COMM_WORLD, edges, less);
        on_dist_graph(MPI_COMM_WORLD, edges, 1, edges > 10 ? cap : less);
        on_dist_graph(MPI_COMM_WORLD, edges, 0, less);
    }
    MPI_Comm other;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &other));
    on_grid(other, 2, any, 1, less);
    on_dist_graph(other, 12, 1, less);
    OK(MPI_Comm_free(&other));
    OK(MPI_Type_free(&gaps_type));
    return t_done("neighbor");
}
