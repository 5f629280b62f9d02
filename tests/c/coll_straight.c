/* What a rank that looks finds of non-blocking and persistent collectives of a few ranks on one machine: all are done, once all ranks have started them, though
 * the others call nothing meanwhile. And the results are right.
 *
 * That all have started is known without MPI, by a counter in memory that they share. Over a network (YAMABIKO_FABRICS), and of more than eight ranks, only the
 * results count.
 */
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 8, SHORT = 5, LONG = 2000, LONGER = 3000, TESTS = 5 };
/* Bytes up to which what all get lies where they read it on each machine (cad.shared.beside_loans). */
static const size_t BESIDE_LOANS = 64 << 10;
/* Bytes of broadcasts that go in pieces, and seconds for which a rank may copy one. */
static const size_t LONG_ONES[] = {128 << 10, 300001, 1 << 20, (5 << 20) + 3};
static const double COPIES_FOR = 10;

/* How many ranks have come to a point so far, in all. */
static atomic_long *come;
static long due;
static int counts;

static void open_counter(void)
{
    char name[64];
    snprintf(name, sizeof name, "/yamabiko-test-straight-%d", (int)getppid());
    int file = shm_open(name, O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0);
    CHECK(ftruncate(file, sizeof *come) == 0);
    come = mmap(NULL, sizeof *come, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(come != MAP_FAILED);
    close(file);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 0)
        shm_unlink(name);
}

/* All come here, and none calls MPI until all have. */
static void meet(void)
{
    due += t_size;
    atomic_fetch_add(come, 1);
    double end = t_seconds() + 30;
    while (atomic_load(come) < due) {
        sched_yield();
        CHECK(t_seconds() < end);
    }
}

/* What was started is over, and was before any other rank called MPI, or any but those that looked before: by a few tests, or for so many seconds. One rank looks last. */
static void over_within(MPI_Request *request, const char *what, double seconds, int last)
{
    int flag = 0;
    double end;
    if (!counts) {
        OK(MPI_Wait(request, MPI_STATUS_IGNORE));
        return;
    }
    meet();
    for (int i = 1; i <= t_size; i++) {
        int rank = (last + i) % t_size;
        end = t_seconds() + seconds;
        for (int n = 0; rank == t_rank && (n < TESTS || t_seconds() < end) && !flag; n++)
            OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
        if (!flag && rank == t_rank)
            t_fail(__FILE__, __LINE__, "%s is not done, though all have started it", what);
        meet();
    }
}

static void over(MPI_Request *request, const char *what)
{
    over_within(request, what, 0, t_size - 1);
}

static int *in, *out;

/* Operand i of a rank, and the sum of those of ranks below `end`. */
static int operand(int rank, int i)
{
    return (rank + 1) * 1000 + i;
}

static int sum_below(int end, int i)
{
    return end * (end + 1) / 2 * 1000 + end * i;
}

static void fill(int n)
{
    for (int i = 0; i < n * t_size; i++) {
        in[i] = operand(t_rank, i % n);
        out[i] = -1;
    }
}

static void sums(const int *at, int n, int end)
{
    for (int i = 0; i < n; i++)
        SAME(at[i], sum_below(end, i));
}

/* A vector of each rank, one after the other. */
static void vectors(const int *at, int n)
{
    for (int i = 0; i < n * t_size; i++)
        SAME(at[i], operand(i / n, i % n));
}

static void reductions(int n, int root, int in_place)
{
    MPI_Request r;
    void *from = in_place ? MPI_IN_PLACE : in;
    int *to = in_place ? in : out;

    fill(n);
    OK(MPI_Iallreduce(from, to, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
    over(&r, "Iallreduce");
    sums(to, n, t_size);

    fill(n);
    OK(MPI_Ireduce(t_rank == root ? from : in, to, n, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD, &r));
    over(&r, "Ireduce");
    if (t_rank == root)
        sums(to, n, t_size);

    fill(n);
    OK(MPI_Iscan(from, to, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
    over(&r, "Iscan");
    sums(to, n, t_rank + 1);

    fill(n);
    OK(MPI_Iexscan(from, to, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
    over(&r, "Iexscan");
    if (t_rank > 0)
        sums(to, n, t_rank);

    fill(n);
    OK(MPI_Ireduce_scatter_block(from, to, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
    over(&r, "Ireduce_scatter_block");
    sums(to, n, t_size);
    int lengths[MOST];
    for (int i = 0; i < t_size; i++)
        lengths[i] = n;
    fill(n);
    OK(MPI_Ireduce_scatter(from, to, lengths, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
    over(&r, "Ireduce_scatter");
    sums(to, n, t_size);
}

static void moves(int n, int root)
{
    MPI_Request r;
    fill(n);
    OK(MPI_Ibcast(in, n, MPI_INT, root, MPI_COMM_WORLD, &r));
    over(&r, "Ibcast");
    for (int i = 0; i < n; i++)
        SAME(in[i], operand(root, i));

    fill(n);
    OK(MPI_Igather(in, n, MPI_INT, out, n, MPI_INT, root, MPI_COMM_WORLD, &r));
    over(&r, "Igather");
    if (t_rank == root)
        vectors(out, n);

    fill(n);
    OK(MPI_Iscatter(in, n, MPI_INT, out, n, MPI_INT, root, MPI_COMM_WORLD, &r));
    over(&r, "Iscatter");
    for (int i = 0; i < n; i++)
        SAME(out[i], operand(root, i));

    fill(n);
    OK(MPI_Iallgather(in, n, MPI_INT, out, n, MPI_INT, MPI_COMM_WORLD, &r));
    over(&r, "Iallgather");
    vectors(out, n);

    int lengths[MOST], places[MOST];
    for (int i = 0; i < t_size; i++) {
        lengths[i] = i == root ? 0 : n;
        places[i] = i * n;
    }
    fill(n);
    OK(MPI_Iallgatherv(in, lengths[t_rank], MPI_INT, out, lengths, places, MPI_INT, MPI_COMM_WORLD, &r));
    over(&r, "Iallgatherv");
    for (int i = 0; i < n * t_size; i++)
        SAME(out[i], i / n == root ? -1 : operand(i / n, i % n));

    fill(n);
    OK(MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, MPI_COMM_WORLD, &r));
    over(&r, "Ialltoall");
    vectors(out, n);
}

static void persistent(int n)
{
    MPI_Request kept[3];
    int *gathered = t_alloc(sizeof *gathered * (size_t)(n * t_size));
    OK(MPI_Allreduce_init(in, out, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[0]));
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &kept[1]));
    OK(MPI_Allgather_init(in, n, MPI_INT, gathered, n, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[2]));
    for (int round = 0; round < 5; round++) {
        fill(n);
        for (int i = 0; i < 3; i++) {
            OK(MPI_Start(&kept[i]));
            over(&kept[i], "a persistent one");
        }
        sums(out, n, t_size);
        vectors(gathered, n);
    }
    for (int i = 0; i < 3; i++)
        OK(MPI_Request_free(&kept[i]));
    free(gathered);
}

/* Byte i of a long broadcast. */
static unsigned char byte_of(size_t i, int number)
{
    return (unsigned char)(i * 7 + i / 4096 + (size_t)number);
}

/* Broadcasts a block of bytes, which the root has in pairs with gaps between them if it is `sparse`, as the request says, or anew. */
static void long_one(size_t bytes, int root, int number, int sparse, MPI_Request *kept, unsigned char *data)
{
    MPI_Request r = MPI_REQUEST_NULL, *request = kept != NULL ? kept : &r;
    int gaps = sparse && t_rank == root;
    for (size_t i = 0; i < bytes; i++)
        data[gaps ? i / 2 * 3 + i % 2 : i] = t_rank == root ? byte_of(i, number) : 0xee;
    if (kept != NULL) {
        OK(MPI_Start(kept));
    } else {
        MPI_Datatype pairs;
        OK(MPI_Type_vector((int)(bytes / 2), 2, 3, MPI_BYTE, &pairs));
        OK(MPI_Type_commit(&pairs));
        OK(MPI_Ibcast(data, gaps ? 1 : (int)bytes, gaps ? pairs : MPI_BYTE, root, MPI_COMM_WORLD, &r));
        OK(MPI_Type_free(&pairs));
    }
    /* The root may have to keep what is long until all have read it, and of two it gives it as it calls. */
    if (t_size > 2)
        over_within(request, "a long broadcast", COPIES_FOR, root);
    else
        OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    for (size_t i = 0; i < bytes; i++)
        SAME(data[gaps ? i / 2 * 3 + i % 2 : i], byte_of(i, number));
}

/* Such as don't fit where all read them, some at once, and some with one rank far behind: only the results count. */
static void crowded_ones(int root)
{
    enum { AT_ONCE = 3, ROUNDS = 6 };
    static const size_t lengths[] = {(128 << 10) + 1, 12 << 20};
    for (int k = 0; k < 2; k++) {
        size_t bytes = lengths[k];
        MPI_Request requests[AT_ONCE];
        unsigned char *data = t_alloc(bytes * AT_ONCE);
        for (int one = 0; one < AT_ONCE; one++) {
            for (size_t i = 0; i < bytes; i++)
                data[bytes * one + i] = t_rank == root ? byte_of(i, one) : 0xee;
            OK(MPI_Ibcast(data + bytes * one, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, &requests[one]));
        }
        OK(MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE));
        for (int one = 0; one < AT_ONCE; one++)
            for (size_t i = 0; i < bytes; i++)
                SAME(data[bytes * one + i], byte_of(i, one));

        OK(MPI_Bcast_init(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, MPI_INFO_NULL, requests));
        for (int round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < bytes; i++)
                data[i] = t_rank == root ? byte_of(i, round) : 0xee;
            if (t_rank == (root + 1) % t_size)
                usleep(3000);
            OK(MPI_Start(requests));
            OK(MPI_Wait(requests, MPI_STATUS_IGNORE));
            for (size_t i = 0; i < bytes; i++)
                SAME(data[i], byte_of(i, round));
        }
        OK(MPI_Request_free(requests));
        free(data);
    }
}

static void long_ones(int root)
{
    int count = sizeof LONG_ONES / sizeof *LONG_ONES;
    for (int k = 0; k < count; k++) {
        size_t bytes = LONG_ONES[k];
        MPI_Request kept;
        unsigned char *data = t_alloc(bytes * 3 / 2 + 3);
        /* With the first one processes find out how they may copy from each other. */
        OK(MPI_Bcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD));
        OK(MPI_Ibcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, &kept));
        OK(MPI_Wait(&kept, MPI_STATUS_IGNORE));
        /* What one of them has still to read takes room that the next needs, or the root has to call again for it. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        long_one(bytes, root, k, 0, NULL, data);
        long_one(bytes / 2 * 2, root, k + 1, 1, NULL, data);
        OK(MPI_Bcast_init(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, MPI_INFO_NULL, &kept));
        for (int round = 0; round < 3; round++)
            long_one(bytes, root, round, 0, &kept, data);
        OK(MPI_Request_free(&kept));
        free(data);
    }
}

/* Byte i of what `from` gives `to`; to all alike if that is -1. */
static unsigned char byte_between(size_t i, int from, int to)
{
    return byte_of(i, from * 31 + to * 7);
}

/* A type of so many bytes in pairs with gaps between them; and where byte i of block k is, if blocks are such or bytes without gaps. */
static MPI_Datatype pairs_of(int bytes)
{
    MPI_Datatype pairs, spaced;
    OK(MPI_Type_vector(bytes / 2, 2, 3, MPI_BYTE, &pairs));
    OK(MPI_Type_create_resized(pairs, 0, bytes / 2 * 3, &spaced));
    OK(MPI_Type_commit(&spaced));
    OK(MPI_Type_free(&pairs));
    return spaced;
}

static size_t byte_at(int sparse, size_t bytes, int block, size_t i)
{
    return sparse ? bytes / 2 * 3 * (size_t)block + i / 2 * 3 + i % 2 : bytes * (size_t)block + i;
}

/* How each rank gives blocks to the others: who has gaps, whether what it gives lies where it gets, and whether all get the same. */
struct exchange {
    size_t bytes;
    int sparse_from, sparse_to, in_place, alike;
};

static void fill_exchange(const struct exchange *x, unsigned char *from, unsigned char *to)
{
    memset(to, 0xee, x->bytes * 2 * (size_t)t_size);
    for (int k = 0; k < t_size; k++)
        for (size_t i = 0; i < x->bytes; i++) {
            if (x->in_place && (!x->alike || k == t_rank))
                to[byte_at(x->sparse_to, x->bytes, k, i)] = byte_between(i, t_rank, x->alike ? -1 : k);
            else if (!x->in_place)
                from[byte_at(x->sparse_from, x->bytes, x->alike ? 0 : k, i)] = byte_between(i, t_rank, x->alike ? -1 : k);
        }
}

static void check_exchange(const struct exchange *x, const unsigned char *to)
{
    for (int k = 0; k < t_size; k++)
        for (size_t i = 0; i < x->bytes; i++)
            SAME(to[byte_at(x->sparse_to, x->bytes, k, i)], byte_between(i, k, x->alike ? -1 : t_rank));
    if (x->sparse_to)
        for (size_t i = 2; i < x->bytes / 2 * 3 * (size_t)t_size; i += 3)
            SAME(to[i], 0xee);
}

/* Whether blocks of so many bytes are there without a call of who gives them: where receivers copy what is long from its sender, that has to hear of it. */
static int needs_nobody(const struct exchange *x)
{
    const char *copy = getenv("YAMABIKO_COPY");
    int shared = x->bytes <= BESIDE_LOANS && x->alike;
    return t_size > 2 && (shared || (copy != NULL && strcmp(copy, "pipe") == 0));
}

/* One with its own counts, and places, for each rank if it is `v`, which are all the same here; then persistent ones. */
static void one_exchange(const struct exchange *x, int v, unsigned char *from, unsigned char *to)
{
    int one = (int)x->bytes, counts_to[MOST], places_to[MOST], counts_from[MOST], places_from[MOST];
    MPI_Datatype from_type = x->sparse_from ? pairs_of(one) : MPI_BYTE, to_type = x->sparse_to ? pairs_of(one) : MPI_BYTE;
    int from_count = x->sparse_from ? 1 : one, to_count = x->sparse_to ? 1 : one;
    void *given = x->in_place ? MPI_IN_PLACE : from;
    for (int k = 0; k < t_size; k++) {
        counts_from[k] = from_count, places_from[k] = k * from_count;
        counts_to[k] = to_count, places_to[k] = k * to_count;
    }
    for (int round = 0; round < 2; round++) {
        MPI_Request r;
        int kept = round > 0;
        fill_exchange(x, from, to);
        /* What one of them has still to read takes room that the next needs. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (x->alike && v && kept)
            OK(MPI_Allgatherv_init(given, from_count, from_type, to, counts_to, places_to, to_type, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        else if (x->alike && v)
            OK(MPI_Iallgatherv(given, from_count, from_type, to, counts_to, places_to, to_type, MPI_COMM_WORLD, &r));
        else if (x->alike && kept)
            OK(MPI_Allgather_init(given, from_count, from_type, to, to_count, to_type, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        else if (x->alike)
            OK(MPI_Iallgather(given, from_count, from_type, to, to_count, to_type, MPI_COMM_WORLD, &r));
        else if (v && kept)
            OK(MPI_Alltoallv_init(given, counts_from, places_from, from_type, to, counts_to, places_to, to_type, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        else if (v)
            OK(MPI_Ialltoallv(given, counts_from, places_from, from_type, to, counts_to, places_to, to_type, MPI_COMM_WORLD, &r));
        else if (kept)
            OK(MPI_Alltoall_init(given, from_count, from_type, to, to_count, to_type, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        else
            OK(MPI_Ialltoall(given, from_count, from_type, to, to_count, to_type, MPI_COMM_WORLD, &r));
        for (int start = 0; start < (kept ? 2 : 1); start++) {
            if (start > 0)
                fill_exchange(x, from, to);
            if (kept)
                OK(MPI_Start(&r));
            if (needs_nobody(x))
                over_within(&r, x->alike ? "a long allgather" : "a long alltoall", COPIES_FOR, t_size - 1);
            else
                OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            check_exchange(x, to);
        }
        if (kept)
            OK(MPI_Request_free(&r));
    }
    if (x->sparse_from)
        OK(MPI_Type_free(&from_type));
    if (x->sparse_to)
        OK(MPI_Type_free(&to_type));
}

static void exchanges(void)
{
    static const size_t lengths[] = {(12 << 10) + 2, 50000, 300002, 1 << 20};
    int count = sizeof lengths / sizeof *lengths;
    for (int n = 0; n < count; n++) {
        unsigned char *from = t_alloc(lengths[n] * 2 * (size_t)t_size), *to = t_alloc(lengths[n] * 2 * (size_t)t_size);
        for (int kind = 0; kind < 8; kind++) {
            struct exchange x = {lengths[n], kind & 1, kind >> 1 & 1, kind >> 2 & 1, 1};
            if (x.in_place && x.sparse_from)
                continue;
            one_exchange(&x, n % 2, from, to);
            x.alike = 0;
            one_exchange(&x, n % 2, from, to);
        }
        free(from);
        free(to);
    }
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    const char *fabrics = getenv("YAMABIKO_FABRICS");
    counts = t_size <= MOST && (fabrics == NULL || strstr(fabrics, "shm") != NULL);
    CHECK(t_size <= MOST);
    if (counts)
        open_counter();
    size_t bytes = sizeof *in * LONGER * MOST;
    in = t_alloc(bytes);
    out = t_alloc(bytes);

    MPI_Request r;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &r));
        over(&r, "Ibarrier");
    }
    for (int root = 0; root < t_size; root++) {
        moves(SHORT, root);
        moves(LONG, root);
        moves(LONGER, root);
        reductions(SHORT, root, 0);
        reductions(SHORT, root, 1);
        reductions(LONG, root, 0);
        reductions(LONG, root, 1);
    }
    long_ones(0);
    long_ones(t_size - 1);
    exchanges();
    crowded_ones(t_size / 2);
    persistent(SHORT);
    persistent(LONG);
    free(in);
    free(out);
    if (t_rank == 0)
        printf("ok coll_straight\n");
    OK(MPI_Finalize());
    return 0;
}
