/* Long collectives of a few ranks whose data lie where their receivers read them, if they find room: non-blocking and persistent ones, with blocks of different lengths, of which some are too short or too
 * long for that, and with gaps at some ranks only; several at once, of which one rank is late; reductions of which each rank combines a part; and blocking ones. The results are right.
 */
#include "check.h"
#include <unistd.h>

enum { MOST = 8, STARTS = 2, AT_ONCE = 3, SPACE = 3 };
/* Elements of blocks. */
static const int LENGTHS[] = {0, 5, 3073, 20000, 75001, 3 << 18};
enum { KINDS = sizeof LENGTHS / sizeof *LENGTHS };
static const int VECTORS[] = {6145, 33333, 200003};

static MPI_Datatype spaced;

static unsigned value(int from, int to, int i)
{
    return (unsigned)from * 1000003u + (unsigned)to * 7919u + (unsigned)i * 31u;
}

/* Blocks of ints, or of such with gaps between them, in the reverse order of ranks with some room between. */
struct side {
    int counts[MOST], places[MOST], gaps;
    unsigned *data;
};

static size_t at(const struct side *s, int rank, int i)
{
    return (size_t)(s->places[rank] + i) * (s->gaps ? SPACE : 1);
}

static void arrange(struct side *s, int gaps)
{
    int end = 1;
    for (int rank = t_size - 1; rank >= 0; rank--) {
        s->places[rank] = end;
        end += s->counts[rank] + 2;
    }
    s->gaps = gaps;
    size_t all = (size_t)end * SPACE;
    s->data = t_alloc(all * sizeof *s->data);
    for (size_t i = 0; i < all; i++)
        s->data[i] = 0xeeeeeeee;
}

static MPI_Datatype type_of(const struct side *s)
{
    return s->gaps ? spaced : MPI_UNSIGNED;
}

static void check_side(const struct side *s, int alike)
{
    for (int rank = 0; rank < t_size; rank++) {
        for (int i = 0; i < s->counts[rank]; i++)
            SAME(s->data[at(s, rank, i)], value(rank, alike ? 0 : t_rank, i));
        SAME(s->data[at(s, rank, s->counts[rank])], 0xeeeeeeee);
        SAME(s->data[at(s, rank, -1)], 0xeeeeeeee);
    }
}

/* Ranks of the one or the other kind have gaps where they send, or where they receive. */
static void exchange(int round)
{
    struct side from, to;
    for (int rank = 0; rank < t_size; rank++) {
        from.counts[rank] = LENGTHS[(t_rank * 5 + rank * 3 + round) % KINDS];
        to.counts[rank] = LENGTHS[(rank * 5 + t_rank * 3 + round) % KINDS];
    }
    arrange(&from, (t_rank + round) % 2);
    arrange(&to, (t_rank + round / 2) % 2);
    for (int rank = 0; rank < t_size; rank++)
        for (int i = 0; i < from.counts[rank]; i++)
            from.data[at(&from, rank, i)] = value(t_rank, rank, i);
    MPI_Request r;
    if (round % 2 == 0) {
        OK(MPI_Ialltoallv(from.data, from.counts, from.places, type_of(&from), to.data, to.counts, to.places, type_of(&to), MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Alltoallv_init(from.data, from.counts, from.places, type_of(&from), to.data, to.counts, to.places, type_of(&to), MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        for (int start = 0; start < STARTS; start++) {
            if (t_rank == round % t_size)
                usleep(2000);
            OK(MPI_Start(&r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        }
        OK(MPI_Request_free(&r));
    }
    check_side(&to, 0);
    free(from.data);
    free(to.data);
}

static void gather(int round)
{
    struct side to;
    int in_place = round % 3 == 2, gaps = (t_rank + round) % 2;
    for (int rank = 0; rank < t_size; rank++)
        to.counts[rank] = LENGTHS[(rank * 5 + round) % KINDS];
    arrange(&to, (t_rank + round / 2) % 2);
    int own = to.counts[t_rank];
    unsigned *from = t_alloc(((size_t)own + 1) * SPACE * sizeof *from);
    for (int i = 0; i < own; i++) {
        from[(size_t)i * (gaps ? SPACE : 1)] = value(t_rank, 0, i);
        if (in_place)
            to.data[at(&to, t_rank, i)] = value(t_rank, 0, i);
    }
    MPI_Request r;
    OK(MPI_Iallgatherv(in_place ? MPI_IN_PLACE : from, own, gaps ? spaced : MPI_UNSIGNED, to.data, to.counts, to.places, type_of(&to), MPI_COMM_WORLD, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    check_side(&to, 1);
    free(from);
    free(to.data);
}

/* x -> a x + b: those of lower ranks are applied last. */
static void affine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    unsigned *lower = in, *higher = inout;
    for (int i = 0; i < 2 * *count; i += 2) {
        higher[i + 1] = lower[i] * higher[i + 1] + lower[i + 1];
        higher[i] = lower[i] * higher[i];
    }
}

/* Number i of a rank's vector, and what all ranks' come to. */
static unsigned operand(int rank, int i)
{
    return value(rank, i % 17, i) | 1;
}

static void fill(unsigned *vector, int n)
{
    for (int i = 0; i < n; i++)
        vector[i] = operand(t_rank, i);
}

/* The numbers of the result from `first` to `end`. */
static void check_part(const unsigned *part, int first, int end, int maps)
{
    for (int i = first; i < end; i += maps ? 2 : 1) {
        unsigned a = operand(0, i), b = maps ? operand(0, i + 1) : 0;
        for (int rank = 1; rank < t_size; rank++) {
            b = maps ? a * operand(rank, i + 1) + b : 0;
            a = maps ? a * operand(rank, i) : a + operand(rank, i);
        }
        SAME(part[i - first], a);
        if (maps)
            SAME(part[i - first + 1], b);
    }
}

static void check_reduced(const unsigned *result, int n, int maps)
{
    check_part(result, 0, n, maps);
}

/* The reductions of vectors of n numbers: sums, and maps that don't commute; in place or not; the persistent ones with a rank that is late. */
static void reduce(int n, int maps, int in_place, MPI_Datatype pairs, MPI_Op op)
{
    unsigned *in = t_alloc(sizeof *in * (size_t)n), *out = t_alloc(sizeof *out * (size_t)n);
    void *from = in_place ? MPI_IN_PLACE : (void *)in;
    int count = maps ? n / 2 : n;
    MPI_Datatype type = maps ? pairs : MPI_UNSIGNED;
    MPI_Request r;
    fill(in, n);
    fill(out, n);
    OK(MPI_Iallreduce(from, out, count, type, op, MPI_COMM_WORLD, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    check_reduced(out, n, maps);
    OK(MPI_Allreduce_init(from, out, count, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    for (int start = 0; start < STARTS; start++) {
        fill(out, n);
        if (t_rank == start % t_size)
            usleep(2000);
        OK(MPI_Start(&r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        check_reduced(out, n, maps);
    }
    OK(MPI_Request_free(&r));
    fill(out, n);
    OK(MPI_Allreduce(from, out, count, type, op, MPI_COMM_WORLD));
    check_reduced(out, n, maps);
    for (int root = 0; root < t_size; root += t_size > 1 ? t_size - 1 : 1) {
        int here = t_rank == root;
        from = in_place && here ? MPI_IN_PLACE : (void *)in;
        for (int waits = 0; waits < 2; waits++) {
            for (int i = 0; i < n; i++)
                out[i] = here ? operand(t_rank, i) : 0xeeeeeeee;
            if (waits) {
                OK(MPI_Reduce(from, here ? out : NULL, count, type, op, root, MPI_COMM_WORLD));
            } else {
                OK(MPI_Ireduce(from, here ? out : NULL, count, type, op, root, MPI_COMM_WORLD, &r));
                OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            }
            if (here)
                check_reduced(out, n, maps);
            for (int i = 0; i < n; i++)
                SAME(in[i], operand(t_rank, i));
        }
    }
    free(in);
    free(out);
}

/* A vector of which each rank gets a part of the result: of the same length, or of another, which is nothing for some; non-blocking, persistent with a rank that is late, and blocking. */
static void scatter(int n, int alike, int maps, int in_place, MPI_Datatype pairs, MPI_Op op)
{
    int counts[MOST], first = 0, all = 0, width = maps ? 2 : 1;
    for (int rank = 0; rank < t_size; rank++) {
        counts[rank] = alike ? n : n * ((rank * 5 + n) % 4);
        first += rank < t_rank ? counts[rank] * width : 0;
        all += counts[rank] * width;
    }
    int end = first + counts[t_rank] * width;
    unsigned *in = t_alloc(sizeof *in * (size_t)(all + 1)), *out = t_alloc(sizeof *out * (size_t)(all + 1));
    void *from = in_place ? MPI_IN_PLACE : (void *)in;
    MPI_Datatype type = maps ? pairs : MPI_UNSIGNED;
    MPI_Request r = MPI_REQUEST_NULL;
    fill(in, all);
    for (int way = 0; way < 2 + STARTS; way++) {
        for (int i = 0; i <= all; i++)
            out[i] = in_place && i < all ? operand(t_rank, i) : 0xeeeeeeee;
        if (t_rank == way % t_size)
            usleep(2000);
        if (way == 0) {
            OK(alike ? MPI_Reduce_scatter_block(from, out, n, type, op, MPI_COMM_WORLD) : MPI_Reduce_scatter(from, out, counts, type, op, MPI_COMM_WORLD));
        } else if (way == 1) {
            OK(alike ? MPI_Ireduce_scatter_block(from, out, n, type, op, MPI_COMM_WORLD, &r) : MPI_Ireduce_scatter(from, out, counts, type, op, MPI_COMM_WORLD, &r));
        } else {
            if (way == 2)
                OK(alike ? MPI_Reduce_scatter_block_init(from, out, n, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &r)
                         : MPI_Reduce_scatter_init(from, out, counts, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
            OK(MPI_Start(&r));
        }
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        check_part(out, first, end, maps);
        for (int i = end - first; i <= all && !in_place; i++)
            SAME(out[i], 0xeeeeeeee);
        SAME(out[all], 0xeeeeeeee);
    }
    OK(MPI_Request_free(&r));
    for (int i = 0; i < all; i++)
        SAME(in[i], operand(t_rank, i));
    free(in);
    free(out);
}

/* A broadcast that all wait for, of numbers that lie with gaps between them at some ranks. */
static void bcast(int n, int root)
{
    size_t step = (t_rank + root) % 2 ? SPACE : 1;
    unsigned *data = t_alloc(sizeof *data * (size_t)n * SPACE);
    for (size_t i = 0; i < (size_t)n * SPACE; i++)
        data[i] = 0xeeeeeeee;
    for (int i = 0; i < n && t_rank == root; i++)
        data[(size_t)i * step] = operand(root, i);
    OK(MPI_Bcast(data, n, step == 1 ? MPI_UNSIGNED : spaced, root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        SAME(data[(size_t)i * step], operand(root, i));
    for (size_t i = 1; i < (size_t)n && step > 1; i++)
        SAME(data[i * step - 1], 0xeeeeeeee);
    free(data);
}

/* Several of each at once, which a rank begins and waits for later than the others. */
static void crowd(int n)
{
    size_t all = (size_t)n * (size_t)t_size;
    unsigned *in[AT_ONCE], *gathered[AT_ONCE], *given[AT_ONCE], *exchanged[AT_ONCE], *sums[AT_ONCE];
    MPI_Request requests[3 * AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) {
        in[k] = t_alloc(sizeof(unsigned) * (size_t)n);
        sums[k] = t_alloc(sizeof(unsigned) * (size_t)n);
        gathered[k] = t_alloc(sizeof(unsigned) * all);
        given[k] = t_alloc(sizeof(unsigned) * all);
        exchanged[k] = t_alloc(sizeof(unsigned) * all);
        fill(in[k], n);
        for (int rank = 0; rank < t_size; rank++)
            for (int i = 0; i < n; i++)
                given[k][(size_t)rank * (size_t)n + (size_t)i] = value(t_rank, rank + k, i);
    }
    if (t_rank == t_size / 2)
        usleep(3000);
    for (int k = 0; k < AT_ONCE; k++) {
        OK(MPI_Iallgather(in[k], n, MPI_UNSIGNED, gathered[k], n, MPI_UNSIGNED, MPI_COMM_WORLD, &requests[3 * k]));
        OK(MPI_Ialltoall(given[k], n, MPI_UNSIGNED, exchanged[k], n, MPI_UNSIGNED, MPI_COMM_WORLD, &requests[3 * k + 1]));
        OK(MPI_Iallreduce(in[k], sums[k], n, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD, &requests[3 * k + 2]));
    }
    if (t_rank == t_size - 1)
        usleep(3000);
    OK(MPI_Waitall(3 * AT_ONCE, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < AT_ONCE; k++) {
        check_reduced(sums[k], n, 0);
        for (int rank = 0; rank < t_size; rank++)
            for (int i = 0; i < n; i++) {
                SAME(gathered[k][(size_t)rank * (size_t)n + (size_t)i], operand(rank, i));
                SAME(exchanged[k][(size_t)rank * (size_t)n + (size_t)i], value(rank, t_rank + k, i));
            }
        free(in[k]);
        free(sums[k]);
        free(gathered[k]);
        free(given[k]);
        free(exchanged[k]);
    }
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    CHECK(t_size <= MOST);
    OK(MPI_Type_create_resized(MPI_UNSIGNED, 0, SPACE * sizeof(unsigned), &spaced));
    OK(MPI_Type_commit(&spaced));
    for (int round = 0; round < KINDS; round++) {
        exchange(round);
        gather(round);
    }

    MPI_Datatype pairs;
    MPI_Op op;
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &pairs));
    OK(MPI_Type_commit(&pairs));
    OK(MPI_Op_create(affine, 0, &op));
    int vectors = sizeof VECTORS / sizeof *VECTORS;
    for (int k = 0; k < vectors; k++)
        for (int in_place = 0; in_place < 2; in_place++) {
            reduce(2 * VECTORS[k], 0, in_place, pairs, MPI_SUM);
            reduce(2 * VECTORS[k], 1, in_place, pairs, op);
            for (int alike = 0; alike < 2; alike++) {
                scatter(VECTORS[k], alike, 0, in_place, pairs, MPI_SUM);
                scatter(VECTORS[k] / 2, alike, 1, in_place, pairs, op);
            }
        }
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&pairs));
    for (int root = 0; root < t_size; root++) {
        bcast(150001, root);
        bcast(1500001, root);
    }

    crowd(5000);
    crowd(70000);
    OK(MPI_Type_free(&spaced));
    if (t_rank == 0)
        printf("ok coll_shared\n");
    OK(MPI_Finalize());
    return 0;
}
