/* Every send mode, blocking, non-blocking and persistent, against every kind of receive, over the
 * sizes at which implementations change protocol, for contiguous and derived types.
 * Messages go round a ring, so every rank sends and receives (one rank: to itself).
 *
 * Arguments: [largest message in bytes]
 */
#include "check.h"

enum { BLOCKING, NONBLOCKING, PERSISTENT, STYLES };
enum { STANDARD, BUFFERED, SYNCHRONOUS, READY, MODES };

static const size_t sizes[] = {0, 1, 8, 47, 48, 49, 256, 2047, 2048, 2049, 32767, 32768, 32769, (1 << 20) + 3};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int blocking_send(int mode, const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)
{
    switch (mode) {
    case BUFFERED:
        return MPI_Bsend(b, n, t, to, tag, c);
    case SYNCHRONOUS:
        return MPI_Ssend(b, n, t, to, tag, c);
    case READY:
        return MPI_Rsend(b, n, t, to, tag, c);
    default:
        return MPI_Send(b, n, t, to, tag, c);
    }
}

static int started_send(int mode, const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
    switch (mode) {
    case BUFFERED:
        return MPI_Ibsend(b, n, t, to, tag, c, r);
    case SYNCHRONOUS:
        return MPI_Issend(b, n, t, to, tag, c, r);
    case READY:
        return MPI_Irsend(b, n, t, to, tag, c, r);
    default:
        return MPI_Isend(b, n, t, to, tag, c, r);
    }
}

static int prepared_send(int mode, const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
    switch (mode) {
    case BUFFERED:
        return MPI_Bsend_init(b, n, t, to, tag, c, r);
    case SYNCHRONOUS:
        return MPI_Ssend_init(b, n, t, to, tag, c, r);
    case READY:
        return MPI_Rsend_init(b, n, t, to, tag, c, r);
    default:
        return MPI_Send_init(b, n, t, to, tag, c, r);
    }
}

static unsigned char *out, *in;

static void one(size_t bytes, int out_layout, int in_layout, int mode, int send_style, int receive_style, unsigned round)
{
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, tag = (int)(round % 1000);
    int out_count, in_count, got;
    MPI_Datatype out_type = t_type(out_layout, bytes, &out_count), in_type = t_type(in_layout, bytes, &in_count);
    MPI_Request sending = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
    MPI_Status status;

    t_fill(out, out_layout, bytes, (unsigned)t_rank, round);
    memset(in, 0x5A, t_span(in_layout, bytes) + 1);

    if (receive_style == NONBLOCKING) {
        OK(MPI_Irecv(in, in_count, in_type, left, tag, MPI_COMM_WORLD, &receiving));
    } else if (receive_style == PERSISTENT) {
        OK(MPI_Recv_init(in, in_count, in_type, left, tag, MPI_COMM_WORLD, &receiving));
        OK(MPI_Start(&receiving));
    }
    if (mode == READY) /* the receive has to be there first, everywhere */
        OK(MPI_Barrier(MPI_COMM_WORLD));

    if (send_style == BLOCKING) {
        int receive_first = receive_style == BLOCKING && t_rank != 0;
        if (receive_first)
            OK(MPI_Recv(in, in_count, in_type, left, tag, MPI_COMM_WORLD, &status));
        OK(blocking_send(mode, out, out_count, out_type, right, tag, MPI_COMM_WORLD));
        if (receive_style == BLOCKING && !receive_first)
            OK(MPI_Recv(in, in_count, in_type, left, tag, MPI_COMM_WORLD, &status));
    } else {
        if (send_style == NONBLOCKING) {
            OK(started_send(mode, out, out_count, out_type, right, tag, MPI_COMM_WORLD, &sending));
        } else {
            OK(prepared_send(mode, out, out_count, out_type, right, tag, MPI_COMM_WORLD, &sending));
            OK(MPI_Start(&sending));
        }
        if (receive_style == BLOCKING)
            OK(MPI_Recv(in, in_count, in_type, left, tag, MPI_COMM_WORLD, &status));
    }
    if (receive_style != BLOCKING)
        OK(MPI_Wait(&receiving, &status));
    OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));

    SAME(status.MPI_SOURCE, left);
    SAME(status.MPI_TAG, tag);
    OK(MPI_Get_count(&status, MPI_BYTE, &got));
    SAME(got, bytes);
    VERIFY(in, in_layout, bytes, (unsigned)left, round);

    if (send_style == PERSISTENT) { /* used twice, with other data */
        CHECK(sending != MPI_REQUEST_NULL);
        memset(in, 0x5A, t_span(in_layout, bytes) + 1);
        t_fill(out, out_layout, bytes, (unsigned)t_rank, round + 7);
        if (receive_style == PERSISTENT)
            OK(MPI_Start(&receiving));
        else
            OK(MPI_Irecv(in, in_count, in_type, left, tag, MPI_COMM_WORLD, &receiving));
        if (mode == READY)
            OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Startall(1, &sending));
        OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&receiving, &status));
        VERIFY(in, in_layout, bytes, (unsigned)left, round + 7);
        OK(MPI_Request_free(&sending));
        CHECK(sending == MPI_REQUEST_NULL);
    }
    if (receive_style == PERSISTENT)
        OK(MPI_Request_free(&receiving));
    CHECK(receiving == MPI_REQUEST_NULL);
    OK(MPI_Type_free(&out_type));
    OK(MPI_Type_free(&in_type));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    size_t largest = argc > 1 ? (size_t)atol(argv[1]) : sizes[SIZES - 1];
    int pool_bytes = (int)(4 * largest + 64 * MPI_BSEND_OVERHEAD);
    void *pool = t_alloc((size_t)pool_bytes), *back;
    int back_bytes;
    out = t_alloc(3 * largest + 16);
    in = t_alloc(3 * largest + 16);
    OK(MPI_Buffer_attach(pool, pool_bytes));

    unsigned round = 0;
    for (int s = 0; s < SIZES && sizes[s] <= largest; s++)
        for (int mode = 0; mode < MODES; mode++)
            for (int send_style = 0; send_style < STYLES; send_style++)
                for (int receive_style = 0; receive_style < STYLES; receive_style++) {
                    if (mode == READY && receive_style == BLOCKING)
                        continue; /* nothing could tell the sender that the receive is posted */
                    if (t_size == 1 && send_style == BLOCKING && receive_style == BLOCKING && mode != BUFFERED)
                        continue;
                    for (int pair = 0; pair < T_LAYOUTS * T_LAYOUTS; pair++) {
                        /* large messages: each pair of layouts once, not with every combination */
                        if (sizes[s] > 4096 && pair != (int)(round % 5) * 2 && pair != 0)
                            continue;
                        one(sizes[s], pair / T_LAYOUTS, pair % T_LAYOUTS, mode, send_style, receive_style, ++round);
                    }
                    round++;
                }

    OK(MPI_Buffer_detach(&back, &back_bytes));
    CHECK(back == pool);
    SAME(back_bytes, pool_bytes);
    free(pool);
    free(out);
    free(in);
    return t_done("p2p_modes");
}
