/* Persistent collectives whose messages are long enough to go by slots: that they do, as the library says itself at the
 * end, and that every byte is right. All kinds are under way at once, started in another order on each rank, freed and made
 * again, beside a receive that accepts anything and beside collectives that are not persistent.
 *
 * Arguments: together | lost
 *   lost: rank 1 dies between two starts (mpiexec -disable-auto-cleanup)
 *
 * The variable YAMABIKO_SLOTS_REPORT has to be set: what is said then is read, so this is for this library only.
 */
#include "slots.h"
#include <signal.h>

enum { ALLTOALL, ALLGATHER, GATHER, SCATTER, ALLREDUCE, REDUCE_SCATTER, BCAST, NEIGHBOR, KINDS };
enum { BLOCK = 80003, VECTOR = 600011, ROUNDS = 10, PHASES = 3, VICTIM = 1, ROOT = 0 };
static const uint32_t STEP = 2654435761u;

typedef struct {
    int kind, id, rank, size, left, right;
    MPI_Comm comm;
    uint32_t *out, *in;
    MPI_Request request;
    int starts;
} Case;

/* How many integers there are per block, and how many blocks, in the case's buffers. */
static int block_of(const Case *c)
{
    return c->kind == ALLREDUCE || c->kind == BCAST ? VECTOR : BLOCK;
}

static int blocks_of(const Case *c)
{
    return c->kind == ALLREDUCE || c->kind == BCAST ? 1 : c->kind == NEIGHBOR ? 2 : c->size;
}

static uint32_t first_of(const Case *c, int from, int to)
{
    return (uint32_t)(c->id * 1000003 + c->starts * 10007 + from * 101 + to) * 0x85ebca6bu;
}

static void fill(Case *c)
{
    for (int b = 0; b < blocks_of(c); b++)
        for (int i = 0, n = block_of(c); i < n; i++)
            c->out[b * n + i] = first_of(c, c->rank, b) + (uint32_t)i * STEP;
    size_t bytes = (size_t)blocks_of(c) * (size_t)block_of(c) * sizeof *c->in;
    if (c->kind == BCAST && c->rank == ROOT)
        memcpy(c->in, c->out, bytes);
    else
        memset(c->in, 0x5A, bytes);
}

static void expect(const Case *c, int at, uint32_t first, uint32_t step)
{
    int n = block_of(c);
    const uint32_t *block = c->in + (size_t)at * (size_t)n;
    for (int i = 0; i < n; i++)
        if (block[i] != first + (uint32_t)i * step)
            t_fail(__FILE__, __LINE__, "kind %d, start %d: integer %d of block %d is wrong", c->kind, c->starts, i, at);
}

static uint32_t sum_of(const Case *c, int to)
{
    uint32_t sum = 0;
    for (int from = 0; from < c->size; from++)
        sum += first_of(c, from, to);
    return sum;
}

/* What came, and behind it nothing. */
static void verify(const Case *c)
{
    int all = c->kind == ALLTOALL || c->kind == ALLGATHER || (c->kind == GATHER && c->rank == ROOT);
    for (int from = 0; all && from < c->size; from++)
        expect(c, from, first_of(c, from, c->kind == ALLTOALL ? c->rank : 0), STEP);
    if (c->kind == SCATTER)
        expect(c, 0, first_of(c, ROOT, c->rank), STEP);
    if (c->kind == BCAST)
        expect(c, 0, first_of(c, ROOT, 0), STEP);
    if (c->kind == ALLREDUCE)
        expect(c, 0, sum_of(c, 0), STEP * (uint32_t)c->size);
    if (c->kind == REDUCE_SCATTER)
        expect(c, 0, sum_of(c, c->rank), STEP * (uint32_t)c->size);
    if (c->kind == NEIGHBOR) {
        /* From the left comes its second block, from the right its first. */
        expect(c, 0, first_of(c, c->left, 1), STEP);
        expect(c, 1, first_of(c, c->right, 0), STEP);
    }
    if (c->kind == SCATTER || c->kind == REDUCE_SCATTER)
        CHECK(c->size == 1 || c->in[BLOCK] == 0x5A5A5A5Au);
}

static void init(Case *c)
{
    void *out = c->out, *in = c->in;
    MPI_Request *r = &c->request;
    switch (c->kind) {
    case ALLTOALL:
        OK(MPI_Alltoall_init(out, BLOCK, MPI_UINT32_T, in, BLOCK, MPI_UINT32_T, c->comm, MPI_INFO_NULL, r));
        break;
    case ALLGATHER:
        OK(MPI_Allgather_init(out, BLOCK, MPI_UINT32_T, in, BLOCK, MPI_UINT32_T, c->comm, MPI_INFO_NULL, r));
        break;
    case GATHER:
        OK(MPI_Gather_init(out, BLOCK, MPI_UINT32_T, in, BLOCK, MPI_UINT32_T, ROOT, c->comm, MPI_INFO_NULL, r));
        break;
    case SCATTER:
        OK(MPI_Scatter_init(out, BLOCK, MPI_UINT32_T, in, BLOCK, MPI_UINT32_T, ROOT, c->comm, MPI_INFO_NULL, r));
        break;
    case ALLREDUCE:
        OK(MPI_Allreduce_init(out, in, VECTOR, MPI_UINT32_T, MPI_SUM, c->comm, MPI_INFO_NULL, r));
        break;
    case REDUCE_SCATTER:
        OK(MPI_Reduce_scatter_block_init(out, in, BLOCK, MPI_UINT32_T, MPI_SUM, c->comm, MPI_INFO_NULL, r));
        break;
    case BCAST:
        OK(MPI_Bcast_init(in, VECTOR, MPI_UINT32_T, ROOT, c->comm, MPI_INFO_NULL, r));
        break;
    default:
        OK(MPI_Neighbor_alltoall_init(out, BLOCK, MPI_UINT32_T, in, BLOCK, MPI_UINT32_T, c->comm, MPI_INFO_NULL, r));
    }
}

static void begin(Case *c, int kind, MPI_Comm comm, MPI_Comm ring)
{
    *c = (Case){.kind = kind, .id = kind + 1, .comm = kind == NEIGHBOR ? ring : comm};
    OK(MPI_Comm_rank(c->comm, &c->rank));
    OK(MPI_Comm_size(c->comm, &c->size));
    c->left = (c->rank + c->size - 1) % c->size;
    c->right = (c->rank + 1) % c->size;
    size_t bytes = (size_t)blocks_of(c) * (size_t)block_of(c) * sizeof *c->out;
    c->out = t_alloc(bytes);
    c->in = t_alloc(bytes);
    init(c);
}

static void end(Case *c)
{
    OK(MPI_Request_free(&c->request));
    free(c->out);
    free(c->in);
}

/* All at once, each rank in an order of its own. */
static void round_of(Case *cases, int turn)
{
    MPI_Request requests[KINDS];
    for (int i = 0; i < KINDS; i++) {
        Case *c = &cases[(i + turn * (t_rank + 1)) % KINDS];
        c->starts++;
        fill(c);
        OK(MPI_Start(&c->request));
    }
    for (int i = 0; i < KINDS; i++)
        requests[i] = cases[i].request;
    OK(MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < KINDS; i++)
        verify(&cases[i]);
}

/* One that is not persistent, on the same communicator. */
static void another(MPI_Comm comm, int turn)
{
    static uint32_t data[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        data[i] = t_rank == ROOT ? (uint32_t)(turn + i) : 0;
    OK(MPI_Bcast(data, BLOCK, MPI_UINT32_T, ROOT, comm));
    for (int i = 0; i < BLOCK; i++)
        SAME(data[i], (uint32_t)(turn + i));
}

static MPI_Comm ring_of(MPI_Comm comm)
{
    MPI_Comm ring;
    int size, periodic = 1;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Cart_create(comm, 1, &size, &periodic, 0, &ring));
    return ring;
}

static void together(MPI_Comm comm)
{
    MPI_Comm ring = ring_of(comm);
    Case cases[KINDS];
    MPI_Request any;
    int word = -1;
    for (int k = 0; k < KINDS; k++)
        begin(&cases[k], k, comm, ring);
    OK(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &any));
    for (int phase = 0; phase < PHASES; phase++) {
        for (int turn = 0; turn < ROUNDS; turn++)
            round_of(cases, turn);
        another(comm, phase);
        /* Idle and bound, on some ranks in another order. */
        for (int i = 0; i < KINDS; i++)
            OK(MPI_Request_free(&cases[(i + t_rank) % KINDS].request));
        for (int k = 0; k < KINDS; k++)
            init(&cases[k]);
    }
    OK(MPI_Send(&t_rank, 1, MPI_INT, (t_rank + 1) % t_size, 77, comm));
    OK(MPI_Wait(&any, MPI_STATUS_IGNORE));
    SAME(word, (t_rank + t_size - 1) % t_size);
    for (int k = 0; k < KINDS; k++)
        end(&cases[k]);
    OK(MPI_Comm_free(&ring));
}

static void lost(MPI_Comm comm)
{
    MPI_Comm left, left_ring;
    MPI_Comm ring = ring_of(comm);
    Case cases[KINDS], mine[KINDS];
    int me;
    OK(MPI_Comm_split(comm, t_rank == VICTIM, t_rank, &left));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    left_ring = ring_of(left);
    for (int k = 0; k < KINDS; k++) {
        begin(&cases[k], k, comm, ring);
        begin(&mine[k], k, left, left_ring);
    }
    for (int turn = 0; turn < ROUNDS; turn++)
        round_of(cases, turn);
    OK(MPI_Barrier(comm));
    if (t_rank == VICTIM) {
        t_sleep_ms(300); /* the others shall be waiting by then */
        kill(getpid(), SIGKILL);
    }
    /* What is under way ends, with an error in all that get no further without it, and can't be started again. */
    Case *c = &cases[ALLTOALL];
    OK(MPI_Start(&c->request));
    FAILS(MPI_Wait(&c->request, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Start(&c->request), MPI_ERR_PROC_ABORTED);
    for (int turn = 0; turn < ROUNDS; turn++)
        round_of(mine, turn);
    for (int k = 0; k < KINDS; k++) {
        end(&cases[k]);
        end(&mine[k]);
    }
    OK(MPI_Barrier(left));
    OK(MPI_Comm_rank(left, &me));
    t_finalize_slots(3 * (t_size - 1), 2 * (t_size - 1));
    if (me == 0)
        printf("ok coll_slots\n");
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (argc > 1 && strcmp(argv[1], "lost") == 0) {
        lost(comm);
        return 0;
    }
    together(comm);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Those of the exchange alone, an eighth of the starts (most go by slots, fewer on a busy machine), and those of two phases at both ends. */
    t_finalize_slots(PHASES * ROUNDS / 8 * (t_size - 1), 2 * 2 * (t_size - 1));
    if (t_rank == 0)
        printf("ok coll_slots\n");
    return 0;
}
