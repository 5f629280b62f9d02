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

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    process_buffer();
    communicator_buffer();
    automatic();
    too_small();
    return t_done("p2p_bsend");
}
