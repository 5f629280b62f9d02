/* Blocking collectives one behind the other without a pause between: what one process still reads, another must not write over, and
 * what communicators that are gone have left behind is nobody's news.
 *
 * 1. A long random sequence of collectives on one communicator, each checked: all kinds, roots, lengths on both sides of where the way of the
 *    data changes, in place or not, with a rank that is late now and then.
 * 2. More communicators at a time than any table is likely to have room for, made, used and freed in changing order.
 */
#include "check.h"

static uint32_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * below) >> 32);
}

/* Element i of what rank contributes to the collective with this number. */
static int64_t value(uint32_t number, int rank, size_t i)
{
    return (int64_t)number * 1000003 + (int64_t)rank * 7919 + (int64_t)i * 31;
}

static void fill(int64_t *to, size_t count, uint32_t number, int rank, size_t first)
{
    for (size_t i = 0; i < count; i++)
        to[i] = value(number, rank, first + i);
}

static void see(const int64_t *got, size_t count, uint32_t number, int rank, size_t first)
{
    for (size_t i = 0; i < count; i++)
        SAME(got[i], value(number, rank, first + i));
}

/* The sum of what the ranks below `ranks` contribute. */
static void see_sum(const int64_t *got, size_t count, uint32_t number, int ranks)
{
    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += value(number, r, i);
        SAME(got[i], sum);
    }
}

static size_t length(void)
{
    static const size_t lengths[] = {0,    1,    6,    7,    15,   16,   17,   8,    100,  511,   512,   1023,  1024,  1025,
                                     2047, 2048, 2049, 4095, 4096, 4097, 8192, 12289, 16384, 20000, 65536, 70001};
    size_t kinds = sizeof lengths / sizeof lengths[0];
    return draw(4) ? lengths[draw(8)] : lengths[draw((uint32_t)kinds)];
}

static int64_t *out, *in;

static void once(MPI_Comm comm, uint32_t number)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    uint32_t kind = draw(10);
    size_t n = length();
    int root = (int)draw((uint32_t)size), in_place = draw(3) == 0, count = (int)n;
    size_t at = n * (size_t)rank, all = n * (size_t)size;
    uint32_t late = draw(40);
    if ((int)late == rank)
        t_sleep_ms(1);
    memset(in, 0x55, (all + 1) * sizeof *in);
    const void *send = in_place ? MPI_IN_PLACE : out;
    switch (kind) {
    case 0:
        OK(MPI_Barrier(comm));
        return;
    case 1:
        if (rank == root)
            fill(in, n, number, root, 0);
        OK(MPI_Bcast(in, count, MPI_INT64_T, root, comm));
        see(in, n, number, root, 0);
        return;
    case 2:
        fill(in_place && rank == root ? in : out, n, number, rank, 0);
        OK(MPI_Reduce(rank == root ? send : out, in, count, MPI_INT64_T, MPI_SUM, root, comm));
        if (rank == root)
            see_sum(in, n, number, size);
        break;
    case 3:
        fill(in_place ? in : out, n, number, rank, 0);
        OK(MPI_Allreduce(send, in, count, MPI_INT64_T, MPI_SUM, comm));
        see_sum(in, n, number, size);
        break;
    case 4:
        fill(in_place && rank == root ? in + at : out, n, number, rank, 0);
        OK(MPI_Gather(rank == root ? send : out, count, MPI_INT64_T, in, count, MPI_INT64_T, root, comm));
        for (int r = 0; rank == root && r < size; r++)
            see(in + (size_t)r * n, n, number, r, 0);
        break;
    case 5:
        if (rank == root)
            fill(out, all, number, root, 0);
        OK(MPI_Scatter(out, count, MPI_INT64_T, rank == root && in_place ? MPI_IN_PLACE : in, count, MPI_INT64_T, root, comm));
        see(rank == root && in_place ? out + at : in, n, number, root, at);
        break;
    case 6:
        fill(in_place ? in + at : out, n, number, rank, 0);
        OK(MPI_Allgather(send, count, MPI_INT64_T, in, count, MPI_INT64_T, comm));
        for (int r = 0; r < size; r++)
            see(in + (size_t)r * n, n, number, r, 0);
        break;
    case 7:
        fill(in_place ? in : out, all, number, rank, 0);
        OK(MPI_Alltoall(send, count, MPI_INT64_T, in, count, MPI_INT64_T, comm));
        for (int r = 0; r < size; r++)
            see(in + (size_t)r * n, n, number, r, at);
        break;
    case 8:
        fill(in_place ? in : out, n, number, rank, 0);
        OK(MPI_Scan(send, in, count, MPI_INT64_T, MPI_SUM, comm));
        see_sum(in, n, number, rank + 1);
        break;
    case 9:
        fill(in_place ? in : out, n, number, rank, 0);
        OK(MPI_Exscan(send, in, count, MPI_INT64_T, MPI_SUM, comm));
        if (rank > 0)
            see_sum(in, n, number, rank);
        break;
    }
    /* The program's buffer is its own again: nobody may see what it writes there now. */
    memset(out, 0xaa, all * sizeof *out);
}

#define MANY 80

/* Another communicator of the world's processes, or part of them. */
static MPI_Comm another(uint32_t which)
{
    MPI_Comm made = MPI_COMM_NULL;
    switch (which % 4) {
    case 0:
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
        break;
    case 1:
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, t_size - t_rank, &made));
        break;
    case 2:
        OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, t_rank, &made));
        break;
    case 3:
        OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == 0 ? MPI_UNDEFINED : 1, -t_rank, &made));
        break;
    }
    return made;
}

/* A broadcast of bytes, and a reduction to its root or to another: lengths around those at which the way of the data changes. The same at all ranks, whatever communicators
 * each of them is in. */
static void longer(MPI_Comm comm, uint32_t number)
{
    static const int lengths[] = {119, 120, 121, 122, 1000, 4097, 8193, 16383, 16384, 16385};
    const int n = lengths[number * 7 % 10];
    int rank, size, root, other;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    root = (int)(number / 2 % (uint32_t)size);
    other = (int)(number / 3 % (uint32_t)size);
    unsigned char *sent = (unsigned char *)out, *got = (unsigned char *)in;
    for (int i = 0; i < n; i++)
        got[i] = rank == root ? (unsigned char)value(number, root, (size_t)i) : 0;
    OK(MPI_Bcast(got, n, MPI_BYTE, root, comm));
    for (int i = 0; i < n; i++)
        SAME(got[i], (unsigned char)value(number, root, (size_t)i));
    for (int i = 0; i < n; i++)
        sent[i] = (unsigned char)value(number, rank, (size_t)i);
    OK(MPI_Reduce(sent, got, n, MPI_BYTE, MPI_BXOR, other, comm));
    for (int i = 0; i < n; i++)
        sent[i] = 0x77;
    for (int i = 0; i < n && rank == other; i++) {
        unsigned char want = 0;
        for (int r = 0; r < size; r++)
            want ^= (unsigned char)value(number, r, (size_t)i);
        SAME(got[i], want);
    }
}

static void use(MPI_Comm comm, uint32_t number, int times)
{
    if (comm == MPI_COMM_NULL)
        return;
    int rank, size, root = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < times; i++) {
        int64_t mine = value(number, rank, (size_t)i), got = mine, sum = 0, want = 0;
        root = (int)((number + (uint32_t)i) % (uint32_t)size);
        OK(MPI_Bcast(&got, 1, MPI_INT64_T, root, comm));
        SAME(got, value(number, root, (size_t)i));
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, comm));
        for (int r = 0; r < size; r++)
            want += value(number, r, (size_t)i);
        SAME(sum, want);
        longer(comm, number + (uint32_t)i);
    }
    /* Whoever is the root may be through, and free the communicator, long before the others have read. */
    int64_t last = rank == root ? value(number, root, 99) : 0;
    OK(MPI_Bcast(&last, 1, MPI_INT64_T, root, comm));
    SAME(last, value(number, root, 99));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    uint32_t sequence = argc > 1 ? (uint32_t)atoi(argv[1]) : 2000;
    out = t_alloc((70001 * (size_t)t_size + 1) * sizeof *out);
    in = t_alloc((70001 * (size_t)t_size + 1) * sizeof *in);
    state = 7;
    for (uint32_t i = 0; i < sequence; i++)
        once(MPI_COMM_WORLD, i);
    MPI_Comm comms[MANY];
    for (int i = 0; i < MANY; i++)
        comms[i] = another((uint32_t)i);
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < MANY; i++)
            use(comms[i], round * MANY + i, 3);
        for (uint32_t i = round % 3; i < MANY; i += 1 + round) {
            if (comms[i] != MPI_COMM_NULL)
                OK(MPI_Comm_free(&comms[i]));
            comms[i] = another(i + round);
        }
    }
    for (int i = 0; i < MANY; i++)
        if (comms[i] != MPI_COMM_NULL)
            OK(MPI_Comm_free(&comms[i]));
    free(out);
    free(in);
    return t_done("coll_places");
}
