/* Buffered sends: attach, detach, flush; buffers of the process, of a communicator, and automatic
 * ones; a buffer that is too small.
 */
#include "check.h"

enum { N = 20, BYTES = 3000 };

static int right, left;
static unsigned char in[BYTES + 1];

/* All N messages leave before anybody receives: only buffering makes this end. */
static void exchange(MPI_Comm comm, unsigned round, int nonblocking)
{
    unsigned char out[BYTES];
    MPI_Request r;
    for (unsigned i = 0; i < N; i++) {
        t_fill(out, T_PLAIN, BYTES, (unsigned)t_rank, round + i);
        if (nonblocking) {
            OK(MPI_Ibsend(out, BYTES, MPI_BYTE, right, (int)i, comm, &r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Bsend(out, BYTES, MPI_BYTE, right, (int)i, comm));
        }
        memset(out, 0, BYTES); /* ours again at once */
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (unsigned i = 0; i < N; i++) {
        memset(in, 0x5A, sizeof in);
        OK(MPI_Recv(in, BYTES, MPI_BYTE, left, (int)(N - 1 - i), comm, MPI_STATUS_IGNORE));
        VERIFY(in, T_PLAIN, BYTES, (unsigned)left, round + N - 1 - i);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the next round finds the buffer empty */
}

static void process_buffer(void)
{
    int bytes = N * (BYTES + MPI_BSEND_OVERHEAD), got;
    void *pool = t_alloc((size_t)bytes), *back = NULL;
    for (unsigned round = 0; round < 3; round++) {
        OK(MPI_Buffer_attach(pool, bytes));
        exchange(MPI_COMM_WORLD, round * 100, round & 1);
        OK(MPI_Buffer_detach(&back, &got));
        CHECK(back == pool);
        SAME(got, bytes);
    }
    /* Space that was used comes back. */
    OK(MPI_Buffer_attach(pool, bytes));
    for (unsigned round = 0; round < 10; round++)
        exchange(MPI_COMM_WORLD, round * 50, 0);
    /* Detach waits for what is in the buffer: messages sent, then detached, then received elsewhere. */
    unsigned char out[BYTES];
    t_fill(out, T_PLAIN, BYTES, (unsigned)t_rank, 5);
    MPI_Request r;
    memset(in, 0x5A, sizeof in);
    OK(MPI_Irecv(in, BYTES, MPI_BYTE, left, 1, MPI_COMM_WORLD, &r));
    OK(MPI_Bsend(out, BYTES, MPI_BYTE, right, 1, MPI_COMM_WORLD));
    OK(MPI_Buffer_flush());
    MPI_Count large;
    OK(MPI_Buffer_detach_c(&back, &large));
    memset(pool, 0, (size_t)bytes);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    VERIFY(in, T_PLAIN, BYTES, (unsigned)left, 5);
    CHECK(back == pool);
    SAME(large, bytes);
    OK(MPI_Buffer_attach_c(pool, large));
    OK(MPI_Buffer_iflush(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&back, &got));
    free(pool);
}

static void communicator_buffer(void)
{
    MPI_Comm comm;
    int bytes = N * (BYTES + MPI_BSEND_OVERHEAD), got;
    void *pool = t_alloc((size_t)bytes), *back = NULL;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_attach_buffer(comm, pool, bytes));
    exchange(comm, 1000, 0);
    OK(MPI_Comm_flush_buffer(comm));
    exchange(comm, 2000, 1);
    MPI_Request r;
    OK(MPI_Comm_iflush_buffer(comm, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Comm_detach_buffer(comm, &back, &got));
    CHECK(back == pool);
    SAME(got, bytes);

    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    exchange(comm, 3000, 0);
    OK(MPI_Comm_detach_buffer(comm, &back, &got));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    SAME(got, 0);
    OK(MPI_Comm_free(&comm));
    free(pool);
}

static void automatic(void)
{
    void *back;
    int bytes;
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    exchange(MPI_COMM_WORLD, 4000, 0);
    exchange(MPI_COMM_WORLD, 5000, 1);
    OK(MPI_Buffer_detach(&back, &bytes));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
}

static void too_small(void)
{
    char pool[MPI_BSEND_OVERHEAD + 100], out[5000] = "";
    void *back;
    int bytes;
    MPI_Errhandler before;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Bsend(out, sizeof out, MPI_CHAR, right, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER); /* none attached */
    OK(MPI_Buffer_attach(pool, sizeof pool));
    FAILS(MPI_Bsend(out, sizeof out, MPI_CHAR, right, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK(MPI_Buffer_attach(pool, sizeof pool) != MPI_SUCCESS); /* one at a time */
    OK(MPI_Buffer_detach(&back, &bytes));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    OK(MPI_Errhandler_free(&before));
}

/* A request for a flush is had at once, and completes when what was in the buffer then has left. */
static void flush_meanwhile(void)
{
    enum { LONG = 4 << 20 };
    int bytes = LONG + MPI_BSEND_OVERHEAD, small = t_rank, got = -1, flag;
    char *pool = t_alloc((size_t)bytes);
    unsigned char *data = t_alloc(LONG + 1);
    void *back;
    MPI_Request r;
    OK(MPI_Buffer_attach(pool, bytes));
    OK(MPI_Buffer_iflush(&r)); /* of nothing */
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    t_fill(data, T_PLAIN, LONG, (unsigned)t_rank, 9);
    OK(MPI_Bsend(data, LONG, MPI_BYTE, right, 1, MPI_COMM_WORLD));
    OK(MPI_Buffer_iflush(&r));
    OK(MPI_Sendrecv(&small, 1, MPI_INT, right, 2, &got, 1, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, left);
    memset(data, 0x5A, LONG + 1);
    OK(MPI_Recv(data, LONG, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    VERIFY(data, T_PLAIN, LONG, (unsigned)left, 9);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK(r == MPI_REQUEST_NULL);
    /* It has left, so there is room again. */
    OK(MPI_Bsend(data, LONG, MPI_BYTE, t_rank, 3, MPI_COMM_WORLD));
    OK(MPI_Buffer_iflush(&r));
    OK(MPI_Request_free(&r));
    OK(MPI_Iprobe(t_rank, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Recv(data, LONG, MPI_BYTE, t_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&back, &bytes));
    free(data);
    free(pool);
}

/* As a library does that needs a buffer of its own for a while. */
static void borrowed(void)
{
    char pool[MPI_BSEND_OVERHEAD + 100];
    void *theirs = pool, *back;
    int size = -1, bytes;
    OK(MPI_Buffer_detach(&theirs, &size));
    CHECK(theirs == NULL);
    SAME(size, 0);
    OK(MPI_Buffer_attach(pool, sizeof pool));
    OK(MPI_Buffer_detach(&back, &bytes));
    CHECK(back == pool);
    OK(MPI_Buffer_attach(theirs, size));
    OK(MPI_Buffer_attach(pool, sizeof pool));
    OK(MPI_Buffer_detach(&back, &bytes));
    CHECK(back == pool);
}

/* A persistent send that found no room can be started when there is some. */
static void started_again(void)
{
    char pool[MPI_BSEND_OVERHEAD + 100];
    int word = 70 + t_rank, got = -1, bytes;
    void *back;
    MPI_Request r;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Bsend_init(&word, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &r));
    FAILS(MPI_Start(&r), MPI_ERR_BUFFER);
    OK(MPI_Buffer_attach(pool, sizeof pool));
    OK(MPI_Start(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&got, 1, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, 70 + left);
    OK(MPI_Request_free(&r));
    OK(MPI_Buffer_detach(&back, &bytes));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    process_buffer();
    communicator_buffer();
    automatic();
    if (argc < 2) { /* else on another implementation, which may want less or do without */
        flush_meanwhile();
        borrowed();
        started_again();
    }
    too_small();
    return t_done("p2p_bsend");
}
