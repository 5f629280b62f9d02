/* Persistent messages in slots: that long ones go there, as the library says itself at the end, and that a program can't
 * tell.
 *
 * Ranks form a ring. Each has persistent sends to its right neighbour and persistent receives from its left one, on two
 * communicators, with several tags and of lengths around those from which on a message may go by a slot. Rounds with
 * nothing else alternate with such that mix in ordinary messages, probes, wildcards, duplicates, cancelled and freed requests. Every
 * byte of every message tells sender, stream and number.
 *
 * Arguments: ring | threads | lost
 *   threads: two threads do all this at once, on the same communicators, with tags of their own
 *   lost: rank 1 dies while all streams are bound (mpiexec -disable-auto-cleanup)
 *
 * The variable YAMABIKO_SLOTS_REPORT has to be set: what is said then is read, so this is for this library only.
 */
#include "slots.h"
#include <pthread.h>
#include <signal.h>

enum { STREAMS = 6, MOST = 400000, SCRIPTS = 24, ALONE = 16, FIRST = 24, VICTIM = 1, WORD = 90 };

/* From the fourth on they are longer than what any fabric sends without a receive. */
static const int lengths[STREAMS] = {1 << 17, (1 << 17) + 1, 1 << 18, (1 << 18) + 1, 300007, MOST};
enum { BOUND = 3, ALWAYS = STREAMS - BOUND };

static int threaded;
static MPI_Comm comms[2];

/* One ring: a thread's. */
typedef struct {
    int number, left, right;
    MPI_Comm meeting;
    unsigned random;
    unsigned char *out[STREAMS], *in[STREAMS], *more_out[4], *more_in[4];
    MPI_Request send[STREAMS], receive[STREAMS];
    int sent[STREAMS], received[STREAMS], sent_far, received_far;
} Ring;

static MPI_Comm comm_of(int k)
{
    return comms[k % 2];
}

static int tag_of(const Ring *r, int k)
{
    return 100 * r->number + k / 2;
}

static unsigned draw(Ring *r, unsigned below)
{
    r->random = r->random * 1664525u + 1013904223u;
    return (r->random >> 8) % below;
}

static void meet(const Ring *r)
{
    OK(MPI_Barrier(r->meeting));
}

/* Message `number` of a stream of `who`, eight bytes at a time. */
static uint64_t seed_of(int who, const Ring *r, int k, int number)
{
    uint64_t all = ((uint64_t)who << 48) + ((uint64_t)r->number << 40) + ((uint64_t)k << 32) + (uint64_t)number;
    return all * 0xbf58476d1ce4e5b9u;
}

static uint64_t word_of(uint64_t seed, int i)
{
    uint64_t x = (seed ^ (uint64_t)i) * 0x9e3779b97f4a7c15u;
    return x ^ x >> 31;
}

static void fill(unsigned char *buffer, int bytes, uint64_t seed)
{
    for (int i = 0; i < bytes; i += 8) {
        uint64_t word = word_of(seed, i);
        memcpy(buffer + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8));
    }
}

/* The bytes of a message, and behind them nothing touched; then the memory is made ready for the next. */
static void verify(int line, unsigned char *buffer, int bytes, uint64_t seed)
{
    for (int i = 0; i < bytes; i += 8) {
        uint64_t word = word_of(seed, i);
        if (memcmp(buffer + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8)) != 0)
            t_fail(__FILE__, line, "the message of %d bytes is wrong at byte %d or behind", bytes, i);
    }
    if (buffer[bytes] != 0x5A)
        t_fail(__FILE__, line, "the byte behind the message of %d bytes was overwritten", bytes);
    memset(buffer, 0x5A, (size_t)bytes);
}

static void stamp(Ring *r, int k, unsigned char *buffer, int bytes)
{
    fill(buffer, bytes, seed_of(t_rank, r, k, r->sent[k]++));
}

/* A receive that has to have got the stream's next message. */
static void got(int line, Ring *r, int k, unsigned char *buffer, int bytes, const MPI_Status *status)
{
    int count;
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    if (count != bytes || status->MPI_SOURCE != r->left || status->MPI_TAG != tag_of(r, k))
        t_fail(__FILE__, line, "stream %d: %d bytes from %d with tag %d where %d from %d with tag %d were due", k, count,
               status->MPI_SOURCE, status->MPI_TAG, bytes, r->left, tag_of(r, k));
    verify(line, buffer, bytes, seed_of(r->left, r, k, r->received[k]++));
}
#define GOT(r, k, buffer, bytes, status) got(__LINE__, r, k, buffer, bytes, status)

static unsigned char *memory(void)
{
    unsigned char *buffer = t_alloc(MOST + 1);
    memset(buffer, 0x5A, MOST + 1);
    return buffer;
}

static void init_send(Ring *r, int k, unsigned char *buffer, MPI_Request *request)
{
    OK(MPI_Send_init(buffer, lengths[k], MPI_BYTE, r->right, tag_of(r, k), comm_of(k), request));
}

static void init_receive(Ring *r, int k, unsigned char *buffer, MPI_Request *request)
{
    OK(MPI_Recv_init(buffer, lengths[k], MPI_BYTE, r->left, tag_of(r, k), comm_of(k), request));
}

/* Nothing but the persistent requests; the receives are first, or the sends. */
static void alone(Ring *r, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        MPI_Status status[STREAMS];
        int late = round % 3 == 2;
        if (!late)
            OK(MPI_Startall(STREAMS, r->receive));
        meet(r);
        for (int k = 0; k < STREAMS; k++)
            stamp(r, k, r->out[k], lengths[k]);
        OK(MPI_Startall(STREAMS, r->send));
        if (late) {
            meet(r);
            OK(MPI_Startall(STREAMS, r->receive));
        }
        OK(MPI_Waitall(STREAMS, r->receive, status));
        OK(MPI_Waitall(STREAMS, r->send, MPI_STATUSES_IGNORE));
        for (int k = 0; k < STREAMS; k++)
            GOT(r, k, r->in[k], lengths[k], &status[k]);
    }
}

/* How one of a script's messages is sent and received. */
typedef enum { KEPT_SEND, TWIN_SEND, ISEND, ISSEND, SENDS } Sending;
typedef enum { KEPT_RECEIVE, TWIN_RECEIVE, IRECV, ANY, KEPT_ANY, PROBE, IPROBE, MPROBE, IMPROBE, RECEIVES } Receiving;

typedef struct {
    Sending send;
    Receiving receive;
    int bytes;
    unsigned char *out, *in;
    MPI_Request sending, receiving;
} Step;

static void send_step(Ring *r, int k, Step *s)
{
    stamp(r, k, s->out, s->bytes);
    switch (s->send) {
    case KEPT_SEND:
        OK(MPI_Start(&r->send[k]));
        s->sending = r->send[k];
        return;
    case TWIN_SEND:
        init_send(r, k, s->out, &s->sending);
        OK(MPI_Start(&s->sending));
        return;
    case ISEND:
        OK(MPI_Isend(s->out, s->bytes, MPI_BYTE, r->right, tag_of(r, k), comm_of(k), &s->sending));
        return;
    default:
        OK(MPI_Issend(s->out, s->bytes, MPI_BYTE, r->right, tag_of(r, k), comm_of(k), &s->sending));
    }
}

/* What a probe finds is the message whose turn it is, and is received. */
static void probe_step(Ring *r, int k, Step *s)
{
    int source = draw(r, 2) ? r->left : MPI_ANY_SOURCE;
    int tag = draw(r, 2) || threaded ? tag_of(r, k) : MPI_ANY_TAG; /* the other thread's messages have other tags */
    int flag = 0, count;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    switch (s->receive) {
    case PROBE:
        OK(MPI_Probe(source, tag, comm_of(k), &status));
        break;
    case IPROBE:
        while (!flag)
            OK(MPI_Iprobe(source, tag, comm_of(k), &flag, &status));
        break;
    case MPROBE:
        OK(MPI_Mprobe(source, tag, comm_of(k), &message, &status));
        break;
    default:
        while (!flag)
            OK(MPI_Improbe(source, tag, comm_of(k), &flag, &message, &status));
    }
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, s->bytes);
    SAME(status.MPI_SOURCE, r->left);
    SAME(status.MPI_TAG, tag_of(r, k));
    if (s->receive == PROBE || s->receive == IPROBE)
        OK(MPI_Irecv(s->in, s->bytes, MPI_BYTE, r->left, tag_of(r, k), comm_of(k), &s->receiving));
    else
        OK(MPI_Imrecv(s->in, s->bytes, MPI_BYTE, &message, &s->receiving));
}

static void receive_step(Ring *r, int k, Step *s)
{
    int tag = draw(r, 2) || threaded ? tag_of(r, k) : MPI_ANY_TAG;
    switch (s->receive) {
    case KEPT_RECEIVE:
        OK(MPI_Start(&r->receive[k]));
        s->receiving = r->receive[k];
        return;
    case TWIN_RECEIVE:
        init_receive(r, k, s->in, &s->receiving);
        OK(MPI_Start(&s->receiving));
        return;
    case IRECV:
        OK(MPI_Irecv(s->in, MOST, MPI_BYTE, r->left, tag_of(r, k), comm_of(k), &s->receiving));
        return;
    case ANY:
        OK(MPI_Irecv(s->in, MOST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm_of(k), &s->receiving));
        return;
    case KEPT_ANY:
        OK(MPI_Recv_init(s->in, MOST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm_of(k), &s->receiving));
        OK(MPI_Start(&s->receiving));
        return;
    default:
        probe_step(r, k, s);
    }
}

/* A few messages of one stream, each sent and received in some way: the n-th that is sent is the n-th that is received,
 * whether the receives were first or the sends. */
static void script(Ring *r)
{
    Step steps[4];
    int k = BOUND + (int)draw(r, ALWAYS), n = 1 + (int)draw(r, 4), kept_sends = 0, kept_receives = 0;
    int order = (int)draw(r, 3);
    for (int i = 0; i < n; i++) {
        Step *s = &steps[i];
        s->send = (Sending)draw(r, SENDS);
        s->receive = (Receiving)draw(r, RECEIVES);
        if (s->send == KEPT_SEND && kept_sends++ > 0)
            s->send = TWIN_SEND;
        if (s->receive == KEPT_RECEIVE && kept_receives++ > 0)
            s->receive = TWIN_RECEIVE;
        const int some[] = {0, 4, 1 << 17, lengths[k]};
        s->bytes = s->send <= TWIN_SEND ? lengths[k] : some[draw(r, 4)];
        s->out = s->send == KEPT_SEND ? r->out[k] : r->more_out[i];
        s->in = s->receive == KEPT_RECEIVE ? r->in[k] : r->more_in[i];
        if (s->receive >= PROBE && order == 0)
            order = 1; /* who probes before he sends waits for ever */
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < n; i++) {
            if ((order > 0) == (side == 0))
                send_step(r, k, &steps[i]);
            else
                receive_step(r, k, &steps[i]);
        }
        if (side == 0 && order < 2)
            meet(r);
    }
    for (int i = 0; i < n; i++) {
        Step *s = &steps[i];
        MPI_Status status;
        OK(MPI_Wait(&s->receiving, &status));
        GOT(r, k, s->in, s->bytes, &status);
        if (s->receive == TWIN_RECEIVE || s->receive == KEPT_ANY)
            OK(MPI_Request_free(&s->receiving));
    }
    for (int i = 0; i < n; i++) {
        OK(MPI_Wait(&steps[i].sending, MPI_STATUS_IGNORE));
        if (steps[i].send == TWIN_SEND)
            OK(MPI_Request_free(&steps[i].sending));
    }
}

/* Messages of two senders for receives from any source. The right neighbour's right one sends too. */
static void two_senders(Ring *r)
{
    int k = BOUND + (int)draw(r, ALWAYS), tag = tag_of(r, k);
    int far_right = (t_rank + 2) % t_size, far_left = (t_rank + 2 * t_size - 2) % t_size, near = 0;
    MPI_Request sends[2], receives[2];
    MPI_Status status[2];
    OK(MPI_Recv_init(r->more_in[0], MOST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm_of(k), &receives[0]));
    OK(MPI_Start(&receives[0]));
    OK(MPI_Irecv(r->more_in[1], MOST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm_of(k), &receives[1]));
    if (draw(r, 2))
        meet(r);
    stamp(r, k, r->out[k], lengths[k]);
    OK(MPI_Start(&r->send[k]));
    sends[0] = r->send[k];
    fill(r->more_out[0], lengths[k], seed_of(t_rank, r, STREAMS, r->sent_far++));
    OK(MPI_Isend(r->more_out[0], lengths[k], MPI_BYTE, far_right, tag, comm_of(k), &sends[1]));
    OK(MPI_Waitall(2, receives, status));
    OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; i++) {
        /* Where both are the same process its messages come in order. */
        if (status[i].MPI_SOURCE == r->left && near++ == 0) {
            GOT(r, k, r->more_in[i], lengths[k], &status[i]);
            continue;
        }
        SAME(status[i].MPI_SOURCE, far_left);
        verify(__LINE__, r->more_in[i], lengths[k], seed_of(far_left, r, STREAMS, r->received_far++));
    }
    OK(MPI_Request_free(&receives[0]));
}

static void must_be_cancelled(MPI_Request *request)
{
    MPI_Status status;
    int cancelled = 0;
    OK(MPI_Cancel(request));
    OK(MPI_Wait(request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled);
}

/* A receive that is cancelled takes nothing. A send may be too late for that. */
static void cancel(Ring *r)
{
    int k = BOUND + (int)draw(r, ALWAYS), gone = 0, lost;
    MPI_Status status;
    if (draw(r, 2)) {
        OK(MPI_Start(&r->receive[k]));
        must_be_cancelled(&r->receive[k]);
        meet(r);
        return;
    }
    stamp(r, k, r->out[k], lengths[k]);
    OK(MPI_Start(&r->send[k]));
    OK(MPI_Cancel(&r->send[k]));
    OK(MPI_Wait(&r->send[k], &status));
    OK(MPI_Test_cancelled(&status, &gone));
    OK(MPI_Send(&gone, 1, MPI_INT, r->right, WORD + 100 * r->number, comm_of(k + 1)));
    OK(MPI_Recv(&lost, 1, MPI_INT, r->left, WORD + 100 * r->number, comm_of(k + 1), MPI_STATUS_IGNORE));
    if (lost) {
        r->received[k]++;
        return;
    }
    OK(MPI_Start(&r->receive[k]));
    OK(MPI_Wait(&r->receive[k], &status));
    GOT(r, k, r->in[k], lengths[k], &status);
}

/* Requests that are freed while their stream is bound, idle or under way, and made again. */
static void freed(Ring *r)
{
    int k = BOUND + (int)draw(r, ALWAYS), sends = 1;
    unsigned what = draw(r, 4);
    MPI_Status status;
    if (what % 2 == 0) {
        OK(MPI_Request_free(&r->receive[k]));
        init_receive(r, k, r->in[k], &r->receive[k]);
    }
    if (what == 1 || what == 2) {
        OK(MPI_Request_free(&r->send[k]));
        init_send(r, k, r->out[k], &r->send[k]);
    }
    stamp(r, k, r->out[k], lengths[k]);
    OK(MPI_Start(&r->send[k]));
    if (what == 3) {
        OK(MPI_Request_free(&r->send[k]));
        init_send(r, k, r->more_out[0], &r->send[k]);
        stamp(r, k, r->more_out[0], lengths[k]);
        OK(MPI_Start(&r->send[k]));
        sends = 2;
    }
    for (int i = 0; i < sends; i++) {
        OK(MPI_Start(&r->receive[k]));
        OK(MPI_Wait(&r->receive[k], &status));
        GOT(r, k, r->in[k], lengths[k], &status);
    }
    OK(MPI_Wait(&r->send[k], MPI_STATUS_IGNORE));
    meet(r); /* until here the freed send may have read its memory */
    if (what == 3) {
        OK(MPI_Request_free(&r->send[k]));
        init_send(r, k, r->out[k], &r->send[k]);
    }
}

static void begin(Ring *r, int number, MPI_Comm meeting)
{
    *r = (Ring){.number = number, .random = 1 + (unsigned)number, .meeting = meeting};
    r->left = (t_rank + t_size - 1) % t_size;
    r->right = (t_rank + 1) % t_size;
    for (int i = 0; i < 4; i++)
        r->more_out[i] = memory(), r->more_in[i] = memory();
    for (int k = 0; k < STREAMS; k++) {
        r->out[k] = memory();
        r->in[k] = memory();
        init_send(r, k, r->out[k], &r->send[k]);
        init_receive(r, k, r->in[k], &r->receive[k]);
    }
}

static void end(Ring *r)
{
    for (int k = 0; k < STREAMS; k++) {
        OK(MPI_Request_free(&r->send[k]));
        OK(MPI_Request_free(&r->receive[k]));
        free(r->out[k]);
        free(r->in[k]);
    }
    for (int i = 0; i < 4; i++) {
        free(r->more_out[i]);
        free(r->more_in[i]);
    }
}

static void *whole(void *argument)
{
    Ring *r = argument;
    alone(r, FIRST);
    for (int i = 0; i < SCRIPTS; i++) {
        switch (i % 6) {
        case 0:
            cancel(r);
            break;
        case 2:
            freed(r);
            break;
        case 4:
            two_senders(r);
            break;
        default:
            script(r);
            script(r);
        }
        alone(r, ALONE);
    }
    return NULL;
}

/* Waits for a request with the rank that died, or with another. */
static void ended(int line, MPI_Request *request, int peer, MPI_Status *status)
{
    int code = MPI_Wait(request, status);
    if (peer == VICTIM && t_class(code) != MPI_ERR_PROC_ABORTED)
        t_fail(__FILE__, line, "a wait for rank %d, which is dead: class %d", peer, t_class(code));
    if (peer != VICTIM)
        OK(code);
}
#define ENDED(request, peer, status) ended(__LINE__, request, peer, status)

static void lost(Ring *r)
{
    MPI_Comm left;
    MPI_Status status;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == VICTIM, t_rank, &left));
    for (int i = 0; i < 2; i++)
        OK(MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN));
    alone(r, FIRST);
    if (t_rank == VICTIM) {
        t_sleep_ms(300); /* the others shall be waiting by then */
        kill(getpid(), SIGKILL);
    }
    /* What is under way with it ends with an error, and what is started later. The other neighbour's goes on. Shorter ones may be
     * gone before. */
    for (int round = 0; round < 3; round++) {
        for (int k = BOUND; k < STREAMS; k++) {
            OK(MPI_Start(&r->receive[k]));
            stamp(r, k, r->out[k], lengths[k]);
            OK(MPI_Start(&r->send[k]));
        }
        for (int k = BOUND; k < STREAMS; k++) {
            ENDED(&r->receive[k], r->left, &status);
            ENDED(&r->send[k], r->right, MPI_STATUS_IGNORE);
            if (r->left != VICTIM)
                GOT(r, k, r->in[k], lengths[k], &status);
        }
    }
    end(r);
    OK(MPI_Barrier(left));
    int me;
    OK(MPI_Comm_rank(left, &me));
    OK(MPI_Comm_free(&left));
    t_finalize_slots(FIRST / 4 * ALWAYS, 2 * ALWAYS);
    if (me == 0)
        printf("ok persist_slots\n");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "ring";
    int level = MPI_THREAD_SINGLE;
    threaded = strcmp(mode, "threads") == 0;
    OK(MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level));
    CHECK(!threaded || level == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    for (int i = 0; i < 2; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    static Ring rings[2];
    MPI_Comm meetings[2];
    int n = threaded ? 2 : 1;
    for (int i = 0; i < n; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &meetings[i]));
        begin(&rings[i], i, meetings[i]);
    }
    if (strcmp(mode, "lost") == 0) {
        lost(&rings[0]);
        return 0;
    }
    pthread_t thread;
    if (threaded)
        CHECK(pthread_create(&thread, NULL, whole, &rings[1]) == 0);
    whole(&rings[0]);
    if (threaded)
        CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < n; i++) {
        end(&rings[i]);
        OK(MPI_Comm_free(&meetings[i]));
    }
    for (int i = 0; i < 2; i++)
        OK(MPI_Comm_free(&comms[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* A stream is counted by both its ends. Nearly all could go by slots; on a busy machine, where a thread may not run for long and
     * finds all in its way when it does, a tenth do. */
    t_finalize_slots((long)n * FIRST / 2 * ALWAYS, 2 * 3 * n * ALWAYS);
    if (t_rank == 0)
        printf("ok persist_slots\n");
    return 0;
}
