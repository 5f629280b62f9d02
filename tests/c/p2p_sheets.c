/* Messages of 1 to 20 KiB, among which the way changes twice, in a ring of ranks: to and fro from any place of a page, exchanged, in streams that nobody
 * answers, late, cut short, probed, from anybody, cancelled, with gaps, and synchronous ones among them.
 */
#include "check.h"

enum { LONGEST = 20000, MANY = 24, ROUNDS = 300, PAGE = 4096 };

static uint32_t state = 4711;
static int right, left;
static unsigned char *out[MANY], *in[MANY];

/* The same at all ranks. */
static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * below) >> 32);
}

static int length(void)
{
    static const int lengths[] = {2048, 4096, 8192, 12288, 16384};
    if (draw(3) == 0)
        return 1000 + (int)draw(LONGEST - 1000);
    return lengths[draw(5)] + (int)draw(3) - 1;
}

static void clear(unsigned char *memory)
{
    memset(memory, 0x5A, LONGEST + PAGE + 64);
}

static void fill(unsigned char *memory, int bytes, unsigned round)
{
    t_fill(memory, T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
}

static void verify(unsigned char *memory, int bytes, int from, unsigned round)
{
    VERIFY(memory, T_PLAIN, (size_t)bytes, (unsigned)from, round);
}

static void status(MPI_Status *s, int from, int tag, int bytes)
{
    int got;
    OK(MPI_Get_count(s, MPI_BYTE, &got));
    SAME(got, bytes);
    SAME(s->MPI_SOURCE, from);
    SAME(s->MPI_TAG, tag);
}

/* To and fro between pairs of ranks, from any place of a page to any. */
static void to_and_fro(unsigned round)
{
    int peer = t_rank ^ 1, at = (int)draw(PAGE), other = (int)draw(PAGE);
    MPI_Status s;
    for (int i = 0; i < 6; i++) {
        int bytes = length();
        unsigned char *from = out[0] + (t_rank % 2 ? at : other), *to = in[0] + (t_rank % 2 ? other : at);
        if (peer >= t_size)
            continue;
        clear(in[0]);
        fill(from, bytes, round);
        if (t_rank % 2)
            OK(MPI_Send(from, bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD));
        OK(MPI_Recv(to, LONGEST, MPI_BYTE, peer, i % 2 ? i : MPI_ANY_TAG, MPI_COMM_WORLD, &s));
        if (t_rank % 2 == 0)
            OK(MPI_Send(from, bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD));
        status(&s, peer, i, bytes);
        verify(to, bytes, peer, round);
    }
}

/* All to the right at the same time. */
static void exchange(unsigned round)
{
    for (int i = 0; i < 6; i++) {
        int bytes = length(), any = (int)draw(2);
        MPI_Status s;
        clear(in[0]);
        fill(out[0], bytes, round);
        OK(MPI_Sendrecv(out[0], bytes, MPI_BYTE, right, i, in[0], LONGEST, MPI_BYTE, any ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD, &s));
        status(&s, left, i, bytes);
        verify(in[0], bytes, left, round);
    }
}

/* Many one after the other with one tag, which come in order: some of them late, some synchronous, some with gaps at their receiver. */
static void stream(unsigned round)
{
    MPI_Request r[2 * MANY];
    MPI_Datatype type[MANY];
    int late = (int)draw(2), bytes[MANY], layout[MANY];
    for (int i = 0; i < MANY; i++) {
        bytes[i] = length() / 3;
        if (draw(2))
            bytes[i] *= 3;
        layout[i] = draw(4) || bytes[i] * 3 > LONGEST ? T_PLAIN : T_SPACED;
        clear(in[i]);
        fill(out[i], bytes[i], round + (unsigned)i);
    }
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < MANY; i++) {
            int synchronous = draw(8) == 0, count = 1;
            if (turn != late) {
                if (synchronous)
                    OK(MPI_Issend(out[i], bytes[i], MPI_BYTE, right, 7, MPI_COMM_WORLD, &r[i]));
                else
                    OK(MPI_Isend(out[i], bytes[i], MPI_BYTE, right, 7, MPI_COMM_WORLD, &r[i]));
            } else {
                type[i] = t_type(layout[i], (size_t)bytes[i], &count);
                OK(MPI_Irecv(in[i], count, type[i], left, 7, MPI_COMM_WORLD, &r[MANY + i]));
            }
        }
    OK(MPI_Waitall(2 * MANY, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) {
        VERIFY(in[i], layout[i], (size_t)bytes[i], (unsigned)left, round + (unsigned)i);
        OK(MPI_Type_free(&type[i]));
    }
}

/* A stream that is received by blocking receives, in the order of its tags or the reverse. */
static void plain_stream(unsigned round)
{
    int reverse = (int)draw(2), bytes[MANY], sent = 0;
    MPI_Request r[MANY];
    for (int i = 0; i < MANY; i++)
        bytes[i] = length();
    if (t_rank % 2 == 0)
        for (int i = 0; i < MANY && right != t_rank; i++) {
            fill(out[i], bytes[i], round + (unsigned)i);
            /* A send may wait for its receive. */
            if (reverse)
                OK(MPI_Isend(out[i], bytes[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &r[sent++]));
            else
                OK(MPI_Send(out[i], bytes[i], MPI_BYTE, right, i, MPI_COMM_WORLD));
        }
    if (left % 2 == 0)
        for (int k = 0; k < MANY && left != t_rank; k++) {
            int i = reverse ? MANY - 1 - k : k;
            MPI_Status s;
            clear(in[i]);
            OK(MPI_Recv(in[i], LONGEST, MPI_BYTE, left, i, MPI_COMM_WORLD, &s));
            status(&s, left, i, bytes[i]);
            verify(in[i], bytes[i], left, round + (unsigned)i);
        }
    OK(MPI_Waitall(sent, r, MPI_STATUSES_IGNORE));
}

/* Into receives that are too short, blocking, posted or late; what comes behind is whole. */
static void cut_short(unsigned round)
{
    int bytes = length(), room = bytes - 1 - (int)draw(900), how = (int)draw(3), code;
    MPI_Request r, sent[2];
    MPI_Status s;
    clear(in[0]);
    clear(in[1]);
    fill(out[0], bytes, round);
    fill(out[1], bytes, round + 1);
    if (how == 0)
        OK(MPI_Irecv(in[0], room, MPI_BYTE, left, 1, MPI_COMM_WORLD, &r));
    for (int i = 0; i < 2; i++)
        OK(MPI_Isend(out[i], bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &sent[i]));
    if (how == 1)
        OK(MPI_Probe(left, 1, MPI_COMM_WORLD, &s));
    code = how == 0 ? MPI_Wait(&r, &s) : MPI_Recv(in[0], room, MPI_BYTE, left, 1, MPI_COMM_WORLD, &s);
    SAME(t_class(code), MPI_ERR_TRUNCATE);
    OK(MPI_Recv(in[1], bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &s));
    status(&s, left, 1, bytes);
    verify(in[1], bytes, left, round + 1);
    for (int i = room; i < bytes + 64; i++)
        SAME(in[0][i], 0x5A);
    OK(MPI_Waitall(2, sent, MPI_STATUSES_IGNORE));
}

/* Probed, taken by its handle, and after a receive that was cancelled. */
static void probed(unsigned round)
{
    int bytes = length(), flag;
    MPI_Request r, sent;
    MPI_Message message;
    MPI_Status s;
    clear(in[0]);
    clear(in[1]);
    fill(out[0], bytes, round);
    OK(MPI_Irecv(in[1], LONGEST, MPI_BYTE, left, 3, MPI_COMM_WORLD, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &s));
    OK(MPI_Test_cancelled(&s, &flag));
    SAME(flag, 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Isend(out[0], bytes, MPI_BYTE, right, 3, MPI_COMM_WORLD, &sent));
    OK(MPI_Mprobe(draw(2) ? MPI_ANY_SOURCE : left, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &s));
    status(&s, left, 3, bytes);
    OK(MPI_Mrecv(in[0], LONGEST, MPI_BYTE, &message, &s));
    status(&s, left, 3, bytes);
    verify(in[0], bytes, left, round);
    SAME(in[1][0], 0x5A);
    OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
    /* Nobody's next message is found here. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A send that is cancelled is received or is not, and its receiver hears which. */
static void cancelled(unsigned round)
{
    int bytes = length(), gone, was, synchronous = (int)draw(2);
    MPI_Request r;
    MPI_Status s;
    clear(in[0]);
    fill(out[0], bytes, round);
    if (synchronous)
        OK(MPI_Issend(out[0], bytes, MPI_BYTE, right, 4, MPI_COMM_WORLD, &r));
    else
        OK(MPI_Isend(out[0], bytes, MPI_BYTE, right, 4, MPI_COMM_WORLD, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &s));
    OK(MPI_Test_cancelled(&s, &gone));
    OK(MPI_Sendrecv(&gone, 1, MPI_INT, right, 5, &was, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &s));
    if (!was) {
        OK(MPI_Recv(in[0], LONGEST, MPI_BYTE, left, 4, MPI_COMM_WORLD, &s));
        status(&s, left, 4, bytes);
        verify(in[0], bytes, left, round);
    }
}

/* From everybody to one, from any source. */
static void gathered(unsigned round)
{
    int root = (int)draw((uint32_t)t_size), bytes = length();
    MPI_Request r;
    fill(out[0], bytes, round);
    OK(MPI_Isend(out[0], bytes, MPI_BYTE, root, 6, MPI_COMM_WORLD, &r));
    for (int i = 0; i < t_size && t_rank == root; i++) {
        MPI_Status s;
        clear(in[0]);
        OK(MPI_Recv(in[0], LONGEST, MPI_BYTE, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &s));
        status(&s, s.MPI_SOURCE, 6, bytes);
        verify(in[0], bytes, s.MPI_SOURCE, round);
    }
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    static void (*const parts[])(unsigned) = {to_and_fro, exchange, stream, plain_stream, cut_short, probed, cancelled, gathered};
    int rounds;
    t_init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    for (int i = 0; i < MANY; i++) {
        out[i] = t_alloc(LONGEST + PAGE + 64);
        in[i] = t_alloc(3 * LONGEST + PAGE + 64);
    }
    rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    for (int i = 0; i < rounds; i++)
        parts[draw(sizeof parts / sizeof *parts)](100u * (unsigned)i);
    for (int i = 0; i < MANY; i++) {
        free(out[i]);
        free(in[i]);
    }
    return t_done("p2p_sheets");
}
