/* Virtual topologies: grids, graphs and distributed graphs of all shapes that fit, and what is asked about them.
 *
 * Argument: all (default) | whole | errors
 * ("whole" always asks for all neighbours: MPICH 5.0.2 refuses to give some.)
 */
#include "check.h"

enum { MOST = 16, EDGES = 64, DIMS = 4 };

/* MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY: gcc warns of constant addresses that are passed for arrays. */
static int *volatile unweighted, *volatile no_weights;
static unsigned seed;
static int parts = 1;

/* The same numbers on all ranks. */
static int pick(int below)
{
    seed = seed * 1103515245u + 12345u;
    return (int)(seed >> 16) % below;
}

static int wrap(int at, int by, int dim)
{
    return ((at + by) % dim + dim) % dim;
}

/* One grid: ranks in row-major order. */
static void grid(MPI_Comm old, int ndims, const int *dims, const int *periods)
{
    MPI_Comm cart, copy;
    int size = 1, old_rank, n, rank, kind, mapped, got[DIMS] = {0}, ring[DIMS] = {0}, here[DIMS] = {0}, there[DIMS] = {0};
    for (int d = 0; d < ndims; d++)
        size *= dims[d];
    OK(MPI_Comm_rank(old, &old_rank));
    OK(MPI_Cart_map(old, ndims, dims, periods, &mapped));
    SAME(mapped, old_rank < size ? old_rank : MPI_UNDEFINED);
    OK(MPI_Cart_create(old, ndims, dims, periods, 0, &cart));
    if (old_rank >= size) {
        CHECK(cart == MPI_COMM_NULL);
        return;
    }
    OK(MPI_Comm_size(cart, &n));
    OK(MPI_Comm_rank(cart, &rank));
    SAME(n, size);
    SAME(rank, old_rank);
    OK(MPI_Comm_dup(cart, &copy));
    OK(MPI_Comm_free(&cart));
    OK(MPI_Topo_test(copy, &kind));
    SAME(kind, MPI_CART);
    OK(MPI_Cartdim_get(copy, &n));
    SAME(n, ndims);
    OK(MPI_Cart_get(copy, DIMS, got, ring, here));
    for (int r = 0; r < size; r++) {
        int rest = r, back;
        OK(MPI_Cart_coords(copy, r, ndims, there));
        for (int d = ndims - 1; d >= 0; d--) {
            SAME(there[d], rest % dims[d]);
            rest /= dims[d];
            if (periods[d] && r % 2)
                there[d] += dims[d] * (d - 2);
        }
        OK(MPI_Cart_rank(copy, there, &back));
        SAME(back, r);
    }
    OK(MPI_Cart_coords(copy, rank, DIMS, there));
    for (int d = 0; d < ndims; d++) {
        SAME(got[d], dims[d]);
        SAME(!ring[d], !periods[d]);
        SAME(here[d], there[d]);
        for (int by = -5; by <= 5; by++) {
            int from, to;
            OK(MPI_Cart_shift(copy, d, by, &from, &to));
            for (int back = 0; back < 2; back++) {
                int at = here[d] + (back ? -by : by), want = MPI_PROC_NULL;
                memcpy(there, here, sizeof there);
                there[d] = wrap(at, 0, dims[d]);
                if (periods[d] || (at >= 0 && at < dims[d]))
                    OK(MPI_Cart_rank(copy, there, &want));
                SAME(back ? from : to, want);
            }
        }
    }
    /* Every way to leave dimensions out. */
    for (int mask = 0; mask < 1 << ndims; mask++) {
        MPI_Comm sub;
        int remain[DIMS] = {0}, coords[DIMS] = {0}, k = 0, members = 1, worlds[MOST], mine = rank;
        for (int d = 0; d < ndims; d++) {
            remain[d] = mask >> d & 1;
            members *= remain[d] ? dims[d] : 1;
        }
        OK(MPI_Cart_sub(copy, remain, &sub));
        OK(MPI_Comm_size(sub, &n));
        SAME(n, members);
        OK(MPI_Cart_get(sub, DIMS, got, ring, coords));
        for (int d = 0; d < ndims; d++)
            if (remain[d]) {
                SAME(got[k], dims[d]);
                SAME(!ring[k], !periods[d]);
                SAME(coords[k], here[d]);
                k++;
            }
        OK(MPI_Cartdim_get(sub, &n));
        SAME(n, k);
        OK(MPI_Allgather(&mine, 1, MPI_INT, worlds, 1, MPI_INT, sub));
        for (int r = 0; r < members; r++) {
            int place[DIMS] = {0}, want;
            OK(MPI_Cart_coords(sub, r, DIMS, place));
            memcpy(there, here, sizeof there);
            for (int d = 0, j = 0; d < ndims; d++)
                if (remain[d])
                    there[d] = place[j++];
            OK(MPI_Cart_rank(copy, there, &want));
            SAME(worlds[r], want);
        }
        OK(MPI_Comm_free(&sub));
    }
    OK(MPI_Comm_free(&copy));
}

/* Dimensions that are given need only divide the processes, also where all are given and where there is none. */
static void given_dims(void)
{
    int all[2] = {2, 2}, some[3] = {2, 0, 2}, none[1] = {-7};
    OK(MPI_Dims_create(8, 2, all));
    CHECK(all[0] == 2 && all[1] == 2);
    OK(MPI_Dims_create(12, 3, some));
    CHECK(some[0] == 2 && some[1] == 3 && some[2] == 2);
    OK(MPI_Dims_create(6, 0, none));
    SAME(none[0], -7);
}

/* The largest and the smallest are as close as can be. */
static void close_dims(void)
{
    int three[3] = {0}, five[5] = {0};
    OK(MPI_Dims_create(34425, 3, three));
    CHECK(three[0] == 51 && three[1] == 27 && three[2] == 25);
    OK(MPI_Dims_create(98784, 5, five));
    CHECK(five[0] == 14 && five[1] == 14 && five[2] == 9 && five[3] == 8 && five[4] == 7);
}

static void grids(MPI_Comm old)
{
    int size;
    OK(MPI_Comm_size(old, &size));
    for (int ndims = 0; ndims <= DIMS; ndims++) /* the larger ones: every fifth choice of rings */
        for (int part = size; part >= 1; part = part > 2 ? part - 2 : part - 1)
            for (int rings = 0; rings < 1 << ndims; rings += ndims > 2 ? 5 : 1) {
                int dims[DIMS] = {0}, periods[DIMS];
                for (int d = 0; d < DIMS; d++)
                    periods[d] = rings >> d & 1 ? 7 : 0;
                if (ndims > 0)
                    OK(MPI_Dims_create(part, ndims, dims));
                grid(old, ndims, dims, periods);
            }
}

/* One graph, whose node r has `degrees[r]` neighbours. */
static void graph(MPI_Comm old, int nodes, const int *index, const int *edges)
{
    MPI_Comm comm, copy;
    int rank, old_rank, n, m, kind, mapped, got_index[MOST], got_edges[EDGES], neighbors[EDGES];
    OK(MPI_Comm_rank(old, &old_rank));
    OK(MPI_Graph_map(old, nodes, index, edges, &mapped));
    SAME(mapped, old_rank < nodes ? old_rank : MPI_UNDEFINED);
    OK(MPI_Graph_create(old, nodes, index, edges, 0, &comm));
    if (old_rank >= nodes) {
        CHECK(comm == MPI_COMM_NULL);
        return;
    }
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Topo_test(copy, &kind));
    SAME(kind, MPI_GRAPH);
    OK(MPI_Comm_rank(copy, &rank));
    SAME(rank, old_rank);
    OK(MPI_Graphdims_get(copy, &n, &m));
    SAME(n, nodes);
    SAME(m, index[nodes - 1]);
    OK(MPI_Graph_get(copy, MOST, EDGES, got_index, got_edges));
    CHECK(memcmp(got_index, index, (size_t)n * sizeof *index) == 0);
    CHECK(memcmp(got_edges, edges, (size_t)m * sizeof *edges) == 0);
    for (int r = 0; r < nodes; r++) {
        int first = r ? index[r - 1] : 0;
        OK(MPI_Graph_neighbors_count(copy, r, &n));
        SAME(n, index[r] - first);
        OK(MPI_Graph_neighbors(copy, r, n, neighbors));
        CHECK(memcmp(neighbors, edges + first, (size_t)n * sizeof *edges) == 0);
    }
    OK(MPI_Comm_free(&copy));
}

static void graphs(MPI_Comm old)
{
    int size;
    OK(MPI_Comm_size(old, &size));
    seed = 5;
    for (int round = 0; round < 20; round++) {
        int nodes = 1 + pick(size), degrees[MOST] = {0}, ends[EDGES][2], edges[EDGES], index[MOST], n = pick(EDGES / 2), at = 0;
        for (int i = 0; i < n; i++) {
            ends[i][0] = pick(nodes);
            ends[i][1] = pick(nodes);
        }
        for (int r = 0; r < nodes; r++) {
            for (int i = 0; i < n; i++) {
                if (ends[i][0] == r)
                    edges[at++] = ends[i][1];
                else if (ends[i][1] == r)
                    edges[at++] = ends[i][0];
            }
            degrees[r] = at;
        }
        memcpy(index, degrees, sizeof index);
        graph(old, nodes, index, edges);
    }
    int none[1] = {0};
    MPI_Comm comm;
    OK(MPI_Graph_create(old, 0, none, none, 0, &comm));
    CHECK(comm == MPI_COMM_NULL);
}

typedef struct {
    int from, to, weight, seen;
} Edge;

/* This rank's lists are the graph's edges, each once, with its weight. */
static void compare(MPI_Comm comm, Edge *all, int n, int weighted)
{
    int rank, ins, outs, has, kind, sources[EDGES], in_weights[EDGES], targets[EDGES], out_weights[EDGES];
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Topo_test(comm, &kind));
    SAME(kind, MPI_DIST_GRAPH);
    OK(MPI_Dist_graph_neighbors_count(comm, &ins, &outs, &has));
    SAME(!has, !weighted);
    if (weighted)
        OK(MPI_Dist_graph_neighbors(comm, ins, sources, in_weights, outs, targets, out_weights));
    else
        OK(MPI_Dist_graph_neighbors(comm, ins, sources, unweighted, outs, targets, unweighted));
    for (int out = 0; out < 2; out++) {
        int left = out ? outs : ins;
        for (int i = 0; i < n; i++)
            all[i].seen = 0;
        for (int k = 0; k < (out ? outs : ins); k++)
            for (int i = 0; i < n; i++) {
                Edge *e = &all[i];
                int from = out ? rank : sources[k], to = out ? targets[k] : rank, weight = out ? out_weights[k] : in_weights[k];
                if (!e->seen && e->from == from && e->to == to && (!weighted || e->weight == weight)) {
                    e->seen = 1;
                    left--;
                    break;
                }
            }
        SAME(left, 0);
        for (int i = 0; i < n; i++)
            CHECK(all[i].seen || (out ? all[i].from : all[i].to) != rank);
    }
    if (parts && ins > 1 && outs > 1) {
        int few[2] = {-1, -1}, other[2] = {-1, -1};
        OK(MPI_Dist_graph_neighbors(comm, 1, few, unweighted, 1, other, unweighted));
        SAME(few[0], sources[0]);
        SAME(other[0], targets[0]);
        CHECK(few[1] == -1 && other[1] == -1);
    }
}

static void dist_graphs(MPI_Comm old)
{
    int rank, size;
    OK(MPI_Comm_rank(old, &rank));
    OK(MPI_Comm_size(old, &size));
    seed = 11;
    for (int round = 0; round < 24; round++) {
        Edge all[EDGES];
        int n = pick(EDGES), weighted = round % 2, of[EDGES], targets[EDGES], weights[EDGES], degrees[EDGES], k = 0;
        int sources[EDGES], ins = 0, outs = 0, in_weights[EDGES], out_weights[EDGES];
        MPI_Comm comm, copy;
        for (int i = 0; i < n; i++) {
            all[i] = (Edge){pick(size), pick(size), pick(100), 0};
            /* Any process may describe any edge; the first ones describe more than the last. */
            if (pick(size) * pick(size) / size == rank) {
                of[k] = all[i].from, targets[k] = all[i].to, weights[k] = all[i].weight, degrees[k] = 1;
                k++;
            }
        }
        OK(MPI_Dist_graph_create(old, k, of, degrees, targets, !weighted ? unweighted : k ? weights : no_weights,
                                 MPI_INFO_NULL, 0, &comm));
        OK(MPI_Comm_dup(comm, &copy));
        OK(MPI_Comm_free(&comm));
        compare(copy, all, n, weighted);
        OK(MPI_Comm_free(&copy));

        for (int i = 0; i < n; i++) {
            if (all[i].to == rank)
                sources[ins] = all[i].from, in_weights[ins++] = all[i].weight;
            if (all[i].from == rank)
                targets[outs] = all[i].to, out_weights[outs++] = all[i].weight;
        }
        const int *a = !weighted ? unweighted : ins ? in_weights : no_weights;
        const int *b = !weighted ? unweighted : outs ? out_weights : no_weights;
        OK(MPI_Dist_graph_create_adjacent(old, ins, sources, a, outs, targets, b, MPI_INFO_NULL, 0, &comm));
        compare(comm, all, n, weighted);
        int got_sources[EDGES], got_targets[EDGES];
        OK(MPI_Dist_graph_neighbors(comm, ins, got_sources, unweighted, outs, got_targets, unweighted));
        CHECK(memcmp(got_sources, sources, (size_t)ins * sizeof *sources) == 0);
        CHECK(memcmp(got_targets, targets, (size_t)outs * sizeof *targets) == 0);
        OK(MPI_Comm_free(&comm));
    }
    /* One process describes a whole ring, several edges of a source at a time. */
    int of[MOST], degrees[MOST], targets[2 * MOST], n = rank == size - 1 ? size : 0;
    Edge ring[2 * MOST];
    MPI_Comm comm, rest;
    for (int r = 0; r < size; r++) {
        of[r] = r;
        degrees[r] = 2;
        targets[2 * r] = (r + 1) % size;
        targets[2 * r + 1] = (r + size - 1) % size;
        ring[2 * r] = (Edge){r, targets[2 * r], 0, 0};
        ring[2 * r + 1] = (Edge){r, targets[2 * r + 1], 0, 0};
    }
    OK(MPI_Dist_graph_create(old, n, of, degrees, targets, unweighted, MPI_INFO_NULL, 1, &comm));
    compare(comm, ring, 2 * size, 0);
    int kind;
    OK(MPI_Comm_split(comm, 0, 0, &rest));
    OK(MPI_Topo_test(rest, &kind));
    SAME(kind, MPI_UNDEFINED);
    OK(MPI_Comm_free(&rest));
    OK(MPI_Comm_free(&comm));
}

static void errors(void)
{
    MPI_Comm all, comm = MPI_COMM_NULL, cart, ring;
    int dims[2] = {1, 1}, large[2] = {t_size, 2}, bad[2] = {0, 1}, periods[2] = {0, 0};
    int n, m, out[4], who[1] = {t_size}, zero[1] = {0};
    int index[2] = {1, 0}, flag, minus[1] = {-1};
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Dims_create(8, 2, (int[]){3, 0}), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(8, 2, (int[]){3, 2}), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(8, 2, (int[]){16, 0}), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(8, 2, (int[]){-2, 0}), MPI_ERR_DIMS);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    FAILS(MPI_Cart_create(all, 2, large, periods, 0, &comm), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(all, 2, bad, periods, 0, &comm), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(all, -1, dims, periods, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Cart_map(all, 2, large, periods, &n), MPI_ERR_DIMS);
    FAILS(MPI_Cart_map(all, 1, minus, periods, &n), MPI_ERR_DIMS);
    /* A grid without places has one for nobody; MPICH and Open MPI say so too. */
    OK(MPI_Cart_map(all, 2, (int[]){t_size + 1, 0}, periods, &n));
    SAME(n, MPI_UNDEFINED);
    OK(MPI_Cart_map(all, 3, (int[]){65536, 65536, 0}, (int[]){0, 0, 0}, &n));
    SAME(n, MPI_UNDEFINED);
    FAILS(MPI_Graph_create(all, t_size + 1, index, zero, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create_adjacent(all, 1, who, unweighted, 0, zero, unweighted, MPI_INFO_NULL, 0, &comm),
          MPI_ERR_RANK);
    FAILS(MPI_Dist_graph_create_adjacent(all, 1, zero, unweighted, 1, zero, zero, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create_adjacent(all, 1, zero, minus, 1, zero, zero, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(all, 1, zero, minus, zero, unweighted, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    if (t_size > 1)
        FAILS(MPI_Graph_create(all, 2, index, zero, 0, &comm), MPI_ERR_ARG);
    index[0] = 1;
    FAILS(MPI_Graph_create(all, 1, index, who, 0, &comm), MPI_ERR_RANK);
    CHECK(comm == MPI_COMM_NULL);

    OK(MPI_Cart_create(all, 2, (int[]){1, t_size}, (int[]){0, 1}, 0, &cart));
    FAILS(MPI_Cart_coords(cart, t_size, 2, out), MPI_ERR_RANK);
    FAILS(MPI_Cart_coords(cart, 0, 1, out), MPI_ERR_ARG);
    FAILS(MPI_Cart_get(cart, 1, out, out, out), MPI_ERR_ARG);
    FAILS(MPI_Cart_rank(cart, (int[]){1, 0}, &n), MPI_ERR_ARG);
    FAILS(MPI_Cart_shift(cart, 2, 1, &n, &m), MPI_ERR_DIMS);
    FAILS(MPI_Cart_shift(cart, -1, 1, &n, &m), MPI_ERR_DIMS);
    FAILS(MPI_Graphdims_get(cart, &n, &m), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors_count(cart, &n, &m, &flag), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cartdim_get(all, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_sub(all, zero, &comm), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_allgather(zero, 1, MPI_INT, out, 1, MPI_INT, all), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Topo_test(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    OK(MPI_Dist_graph_create_adjacent(all, 1, zero, unweighted, t_rank ? 0 : 1, zero, unweighted, MPI_INFO_NULL, 0, &ring));
    FAILS(MPI_Cartdim_get(ring, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoall(zero, -1, MPI_INT, out, 1, MPI_INT, ring), MPI_ERR_COUNT);
    FAILS(MPI_Neighbor_alltoall(zero, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, ring), MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_alltoallv(zero, zero, zero, MPI_INT, out, NULL, zero, MPI_INT, ring), MPI_ERR_ARG);
    OK(MPI_Comm_free(&ring));
    OK(MPI_Comm_free(&cart));
    OK(MPI_Comm_free(&all));
}

static void everything(MPI_Comm old)
{
    grids(old);
    graphs(old);
    dist_graphs(old);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    unweighted = MPI_UNWEIGHTED;
    no_weights = MPI_WEIGHTS_EMPTY;
    CHECK(t_size <= MOST);
    if (argc > 1 && strcmp(argv[1], "errors") == 0) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        errors();
        return t_done("topology");
    }
    parts = argc <= 1 || strcmp(argv[1], "whole") != 0;
    MPI_Comm half;
    given_dims();
    close_dims();
    everything(MPI_COMM_WORLD);
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, -t_rank, &half));
    everything(half);
    OK(MPI_Comm_free(&half));
    return t_done("topology");
}
