/* MPI_THREAD_MULTIPLE: a thread of each rank probes for, or receives, what another of the same rank sends to itself, which comes while the first polls, while
 * it sleeps, or before it asks.
 *
 * Arguments: [rounds, default 3000]
 */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { SEND, SSEND, BSEND, ISEND, START, MODES };
enum { PROBE, MPROBE, IPROBE, RECV, IRECV, WAYS };
enum { LONGEST = 100000 };

static int rounds = 3000;
static pthread_barrier_t meeting;

static int length_of(unsigned round)
{
    static const int lengths[] = {0, 8, 100, 5000, LONGEST};
    return lengths[round / (MODES * WAYS) % 5];
}

/* Some hundred nanoseconds to some tens of microseconds, by which one of the two is later. */
static void dawdle(unsigned round)
{
    double until = t_seconds() + 100e-9 * (1 << round % 9);
    while (t_seconds() < until)
        ;
}

static void send_to_self(const unsigned char *out, int n, int tag, unsigned mode)
{
    MPI_Request r;
    switch (mode) {
    case SEND:
        OK(MPI_Send(out, n, MPI_BYTE, t_rank, tag, MPI_COMM_WORLD));
        return;
    case SSEND:
        OK(MPI_Ssend(out, n, MPI_BYTE, t_rank, tag, MPI_COMM_WORLD));
        return;
    case BSEND:
        OK(MPI_Bsend(out, n, MPI_BYTE, t_rank, tag, MPI_COMM_WORLD));
        return;
    case ISEND:
        OK(MPI_Isend(out, n, MPI_BYTE, t_rank, tag, MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        return;
    default:
        OK(MPI_Send_init(out, n, MPI_BYTE, t_rank, tag, MPI_COMM_WORLD, &r));
        OK(MPI_Start(&r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&r));
    }
}

static void *sender(void *nothing)
{
    unsigned char *out = t_alloc(LONGEST);
    for (unsigned round = 0; round < (unsigned)rounds; round++) {
        int n = length_of(round);
        t_fill(out, T_PLAIN, (size_t)n, (unsigned)t_rank, round);
        pthread_barrier_wait(&meeting);
        if (round / 7 % 3 != 0)
            dawdle(round);
        if (round % 500 == 499)
            usleep(2000);
        send_to_self(out, n, (int)round % 100, round % MODES);
    }
    free(out);
    return nothing;
}

static void receive(unsigned char *in, int n, int tag, unsigned way)
{
    int source = tag % 2 ? t_rank : MPI_ANY_SOURCE, got, flag = 0;
    MPI_Request r;
    MPI_Message message;
    MPI_Status s;
    switch (way) {
    case PROBE:
        OK(MPI_Probe(source, tag, MPI_COMM_WORLD, &s));
        break;
    case MPROBE:
        OK(MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &s));
        break;
    case IPROBE:
        while (!flag)
            OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &s));
        break;
    case RECV:
        OK(MPI_Recv(in, n, MPI_BYTE, source, tag, MPI_COMM_WORLD, &s));
        break;
    default:
        OK(MPI_Irecv(in, n, MPI_BYTE, source, tag, MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, &s));
    }
    SAME(s.MPI_SOURCE, t_rank);
    SAME(s.MPI_TAG, tag);
    OK(MPI_Get_count(&s, MPI_BYTE, &got));
    SAME(got, n);
    if (way == MPROBE)
        OK(MPI_Mrecv(in, n, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    if (way == PROBE || way == IPROBE)
        OK(MPI_Recv(in, n, MPI_BYTE, t_rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t other;
    char *room;
    int bytes = 2 * (LONGEST + MPI_BSEND_OVERHEAD);
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    SAME(provided, MPI_THREAD_MULTIPLE);
    if (argc > 1)
        rounds = atoi(argv[1]);
    room = t_alloc((size_t)bytes);
    OK(MPI_Buffer_attach(room, bytes));
    CHECK(pthread_barrier_init(&meeting, NULL, 2) == 0);
    CHECK(pthread_create(&other, NULL, sender, NULL) == 0);
    unsigned char *in = t_alloc(LONGEST + 1);
    for (unsigned round = 0; round < (unsigned)rounds; round++) {
        int n = length_of(round);
        memset(in, 0x5A, (size_t)n + 1);
        pthread_barrier_wait(&meeting);
        if (round / 7 % 3 == 0)
            dawdle(round);
        receive(in, n, (int)round % 100, round / MODES % WAYS);
        VERIFY(in, T_PLAIN, (size_t)n, (unsigned)t_rank, round);
    }
    CHECK(pthread_join(other, NULL) == 0);
    OK(MPI_Buffer_detach(&room, &bytes));
    free(room);
    free(in);
    return t_done("threads_self");
}
