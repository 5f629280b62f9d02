/* Persistent sends and receives of long messages, which a library may treat specially once they have
 * met, mixed with everything that must not tell the difference: `persist MIXTURE`.
 *
 * Ranks form pairs; the even one sends.  Each mixture comes again and again after some rounds in which nothing but
 * the two persistent requests is used. */
#include "check.h"

enum { BYTES = 300 * 1024, TAG = 3, OTHER_TAG = 4, ROUNDS = 12 };

static unsigned char out[2][BYTES], in[3][BYTES];
static MPI_Request send, receive;
static MPI_Comm pair;
static int sends, other, sent, received;

static void stamp(unsigned char *buffer, int number)
{
    for (int i = 0; i + 4 <= BYTES; i += 4092)
        memcpy(buffer + i, &number, 4);
    memcpy(buffer + BYTES - 4, &number, 4);
}

static void stamped(int line, const unsigned char *buffer, int want)
{
    int got;
    for (int i = 0; i <= BYTES; i += 4092) {
        memcpy(&got, buffer + (i + 4 <= BYTES ? i : BYTES - 4), 4);
        if (got != want)
            t_fail(__FILE__, line, "message %d came where %d was due (byte %d)", got, want, i);
    }
}
#define STAMPED(buffer, want) stamped(__LINE__, buffer, want)

static void meet(void)
{
    OK(MPI_Barrier(pair));
}

static void wait_for(MPI_Request *request, int bytes, int tag)
{
    MPI_Status status;
    int count;
    OK(MPI_Wait(request, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, bytes);
    SAME(status.MPI_SOURCE, other);
    SAME(status.MPI_TAG, tag);
}

static void start_send(void)
{
    stamp(out[0], sent++);
    OK(MPI_Start(&send));
}

static void finish(MPI_Request *request)
{
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
}

/* Nothing but the two requests. */
static void alone(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        if (!sends)
            OK(MPI_Start(&receive));
        meet();
        if (sends) {
            start_send();
            finish(&send);
        } else {
            wait_for(&receive, BYTES, TAG);
            STAMPED(in[0], received++);
        }
    }
}

/* Another receive before or after the persistent one, another send, a short one, one with another tag. */
static void ordinary(int round)
{
    MPI_Request more;
    int word = -1;
    if (sends) {
        if (round % 2)
            meet();
        start_send();
        if (round % 3 == 0) {
            stamp(out[1], sent++);
            OK(MPI_Isend(out[1], BYTES, MPI_BYTE, other, TAG, pair, &more));
        } else {
            OK(MPI_Isend(&sent, 1, MPI_INT, other, round % 3 == 1 ? TAG : OTHER_TAG, pair, &more));
        }
        if (round % 2 == 0)
            meet();
        finish(&send);
        finish(&more);
        return;
    }
    int first = round / 2 % 2;
    int tag = round % 3 == 2 ? OTHER_TAG : TAG;
    if (round % 3 == 1) {
        OK(MPI_Start(&receive));
        meet();
        OK(MPI_Recv(&word, 1, MPI_INT, other, TAG, pair, MPI_STATUS_IGNORE));
        SAME(word, received + 1);
        wait_for(&receive, BYTES, TAG);
        STAMPED(in[0], received++);
        return;
    }
    if (!first)
        OK(MPI_Start(&receive));
    OK(MPI_Irecv(in[1], BYTES, MPI_BYTE, other, tag, pair, &more));
    if (first)
        OK(MPI_Start(&receive));
    meet();
    wait_for(&more, tag == TAG ? BYTES : 4, tag);
    wait_for(&receive, BYTES, TAG);
    if (tag == OTHER_TAG) {
        STAMPED(in[0], received++);
        return;
    }
    STAMPED(in[first ? 0 : 1], received + 1);
    STAMPED(in[first ? 1 : 0], received);
    received += 2;
}

/* Messages that wait are seen by probes of all kinds. */
static void probe(int round)
{
    MPI_Status status;
    MPI_Message message;
    int flag = 0, count;
    if (sends) {
        start_send();
        if (round % 2)
            meet();
        finish(&send);
        if (round % 2 == 0)
            meet();
        return;
    }
    if (round % 2)
        meet();
    int source = round % 3 ? other : MPI_ANY_SOURCE, tag = round % 5 ? TAG : MPI_ANY_TAG;
    switch (round % 4) {
    case 0:
        OK(MPI_Probe(source, tag, pair, &status));
        break;
    case 1:
        while (!flag)
            OK(MPI_Iprobe(source, tag, pair, &flag, &status));
        break;
    case 2:
        OK(MPI_Mprobe(source, tag, pair, &message, &status));
        break;
    default:
        while (!flag)
            OK(MPI_Improbe(source, tag, pair, &flag, &message, &status));
    }
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, BYTES);
    SAME(status.MPI_TAG, TAG);
    if (round % 4 >= 2) {
        OK(MPI_Mrecv(in[0], BYTES, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Start(&receive));
        wait_for(&receive, BYTES, TAG);
    }
    STAMPED(in[0], received++);
    if (round % 2 == 0)
        meet();
}

/* Receives with any source or tag, persistent and not, before and after. */
static void wildcard(int round)
{
    MPI_Request any;
    if (sends) {
        if (round % 2)
            meet();
        start_send();
        stamp(out[1], sent++);
        /* A receive with any tag gets them in this order too. */
        OK(MPI_Isend(out[1], BYTES, MPI_BYTE, other, round % 3 == 2 ? OTHER_TAG : TAG, pair, &any));
        if (round % 2 == 0)
            meet();
        finish(&send);
        finish(&any);
        return;
    }
    if (round % 3 == 2) {
        meet();
        for (int i = 0; i < 2; i++) {
            OK(MPI_Irecv(in[i], BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, pair, &any));
            wait_for(&any, BYTES, i ? OTHER_TAG : TAG);
            STAMPED(in[i], received++);
        }
        return;
    }
    int first = round / 2 % 2, tag = round % 5 ? MPI_ANY_TAG : TAG;
    OK(MPI_Recv_init(in[1], BYTES, MPI_BYTE, MPI_ANY_SOURCE, tag, pair, &any));
    OK(MPI_Start(first ? &any : &receive));
    if (round % 4 < 2)
        meet();
    OK(MPI_Start(first ? &receive : &any));
    if (round % 4 >= 2)
        meet();
    wait_for(&any, BYTES, TAG);
    wait_for(&receive, BYTES, TAG);
    OK(MPI_Request_free(&any));
    STAMPED(in[first ? 1 : 0], received++);
    STAMPED(in[first ? 0 : 1], received++);
}

/* What is cancelled takes no message, and is none. */
static void cancel(int round)
{
    MPI_Status status;
    int cancelled;
    if (round % 2) {
        if (!sends) {
            OK(MPI_Start(&receive));
            OK(MPI_Cancel(&receive));
            OK(MPI_Wait(&receive, &status));
            OK(MPI_Test_cancelled(&status, &cancelled));
            CHECK(cancelled);
        }
        meet();
        return;
    }
    if (sends) {
        start_send();
        OK(MPI_Cancel(&send));
        OK(MPI_Wait(&send, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        OK(MPI_Send(&cancelled, 1, MPI_INT, other, OTHER_TAG, pair));
        return;
    }
    OK(MPI_Recv(&cancelled, 1, MPI_INT, other, OTHER_TAG, pair, MPI_STATUS_IGNORE));
    if (!cancelled) {
        OK(MPI_Start(&receive));
        wait_for(&receive, BYTES, TAG);
        STAMPED(in[0], received);
    }
    received++;
}

/* Two requests alike on either side, or on both. */
static void duplicate(int round)
{
    MPI_Request two[2];
    if (sends) {
        OK(MPI_Send_init(out[1], BYTES, MPI_BYTE, other, TAG, pair, &two[1]));
        two[0] = send;
        for (int i = 0; i < 3; i++) {
            if (round % 2)
                meet();
            stamp(out[0], sent++);
            stamp(out[1], sent++);
            OK(MPI_Startall(2, two));
            if (round % 2 == 0)
                meet();
            OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
        }
        OK(MPI_Request_free(&two[1]));
        return;
    }
    if (round % 3 == 0) {
        for (int i = 0; i < 3; i++) {
            OK(MPI_Start(&receive));
            meet();
            wait_for(&receive, BYTES, TAG);
            STAMPED(in[0], received++);
            OK(MPI_Start(&receive));
            wait_for(&receive, BYTES, TAG);
            STAMPED(in[0], received++);
        }
        return;
    }
    OK(MPI_Recv_init(in[1], BYTES, MPI_BYTE, other, TAG, pair, &two[1]));
    two[0] = receive;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Startall(2, two));
        meet();
        OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
        STAMPED(in[0], received++);
        STAMPED(in[1], received++);
    }
    OK(MPI_Request_free(&two[1]));
}

/* Requests that are freed, idle or under way, and made again. */
static void freed(int round)
{
    if (sends) {
        if (round % 2) {
            OK(MPI_Request_free(&send));
            OK(MPI_Send_init(out[0], BYTES, MPI_BYTE, other, TAG, pair, &send));
        }
        start_send();
        if (round % 3 == 0) {
            OK(MPI_Request_free(&send));
            OK(MPI_Send_init(out[1], BYTES, MPI_BYTE, other, TAG, pair, &send));
            stamp(out[1], sent++);
            OK(MPI_Start(&send));
        }
        finish(&send);
        meet();
        if (round % 3 == 0) {
            OK(MPI_Request_free(&send));
            OK(MPI_Send_init(out[0], BYTES, MPI_BYTE, other, TAG, pair, &send));
        }
        return;
    }
    if (round % 4 == 0) {
        OK(MPI_Request_free(&receive));
        OK(MPI_Recv_init(in[0], BYTES, MPI_BYTE, other, TAG, pair, &receive));
    }
    for (int i = 0; i < 1 + (round % 3 == 0); i++) {
        OK(MPI_Start(&receive));
        wait_for(&receive, BYTES, TAG);
        STAMPED(in[0], received++);
    }
    meet();
}

/* Messages shorter and longer than the receive. */
static void lengths(int round)
{
    MPI_Request more;
    int bytes = BYTES - 1000 * (round % 3);
    if (sends) {
        stamp(out[1], sent++);
        OK(MPI_Send_init(out[1], bytes, MPI_BYTE, other, TAG, pair, &more));
        if (round % 2)
            meet();
        OK(MPI_Start(&more));
        if (round % 2 == 0)
            meet();
        finish(&more);
        OK(MPI_Request_free(&more));
        return;
    }
    OK(MPI_Start(&receive));
    meet();
    wait_for(&receive, bytes, TAG);
    SAME(*(int *)in[0], received++);
}

static void truncated(int round)
{
    MPI_Request brief;
    const int room = BYTES - 5000;
    if (sends) {
        for (int i = 0; i < 4; i++) {
            meet();
            start_send();
            finish(&send);
        }
        return;
    }
    OK(MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN));
    OK(MPI_Recv_init(in[2], room, MPI_BYTE, other, TAG, pair, &brief));
    in[2][room] = 0x5A;
    for (int i = 0; i < 4; i++) {
        OK(MPI_Start(round % 2 && i ? &receive : &brief));
        meet();
        if (round % 2 && i)
            wait_for(&receive, BYTES, TAG);
        else
            FAILS(MPI_Wait(&brief, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        SAME(in[2][room], 0x5A);
        SAME(*(int *)in[round % 2 && i ? 0 : 2], received++);
    }
    OK(MPI_Request_free(&brief));
}

static const struct {
    const char *name;
    void (*run)(int round);
} mixtures[] = {
    {"ordinary", ordinary}, {"probe", probe}, {"wildcard", wildcard},   {"cancel", cancel},
    {"duplicate", duplicate}, {"freed", freed}, {"lengths", lengths}, {"truncated", truncated},
};

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    int rank, size, found = 0;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank / 2, t_rank, &pair));
    OK(MPI_Comm_rank(pair, &rank));
    OK(MPI_Comm_size(pair, &size));
    sends = rank == 0;
    other = 1 - rank;
    for (size_t i = 0; size == 2 && i < sizeof mixtures / sizeof *mixtures; i++) {
        if (argc < 2 || strcmp(argv[1], mixtures[i].name) != 0)
            continue;
        found = 1;
        if (sends)
            OK(MPI_Send_init(out[0], BYTES, MPI_BYTE, other, TAG, pair, &send));
        else
            OK(MPI_Recv_init(in[0], BYTES, MPI_BYTE, other, TAG, pair, &receive));
        for (int round = 0; round < ROUNDS; round++) {
            alone(round < 4 ? 8 : 40);
            mixtures[i].run(round);
        }
        alone(2);
        OK(MPI_Request_free(sends ? &send : &receive));
    }
    CHECK(found || size == 1);
    OK(MPI_Comm_free(&pair));
    return t_done("persist");
}
