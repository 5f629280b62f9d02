/* MPI_THREAD_MULTIPLE: a thread of each rank waits for what another of the same rank sends to itself, and that one for its receive, whichever comes first: while
 * the other polls, while it sleeps, or before it asks. */
#include <mpi.h>
#include "check.h"
#include <pthread.h>

enum { SEND, ISEND, SEND_ANY, SENDS };
enum { RECV, IRECV, WAYS };
enum { ORDERS = 2, CASES = SENDS * WAYS * 2 * 5 * ORDERS, ROUNDS = 25 * CASES, LONGEST = 100000, INDICES = 40 };
static const size_t LENGTHS[] = {0, 8, 100, 5000, LONGEST};

static pthread_barrier_t meeting;

/* A round's case: how it is sent, how it is received, whether by its index, its length, and who is late. */
static int send_of(int round) { return round % SENDS; }
static int way_of(int round) { return round / SENDS % WAYS; }
static int by_index(int round) { return round / (SENDS * WAYS) % 2; }
static size_t length_of(int round) { return LENGTHS[round / (SENDS * WAYS * 2) % 5]; }
static int is_sender_late(int round) { return round / (SENDS * WAYS * 2 * 5) % ORDERS; }

/* By which one of the two is later: in the first round of each case so long that the other sleeps, then some hundred nanoseconds to some tens of
 * microseconds. */
static void dawdle(int round) {
    if (round < CASES)
        sleep_ms(2);
    double until = fmpl_wtime() + 100e-9 * (1 << round % 9);
    while (fmpl_wtime() < until)
        ;
}

static void send_to_self(const void *out, size_t n, int index, int how) {
    switch (how) {
    case SEND:
        OK(fmpl_send(out, n, me, index, FMPL_COMM_WORLD, &ier));
        return;
    case ISEND:
        OK(fmpl_isend(out, n, me, index, FMPL_COMM_WORLD, &ier));
        OK(fmpl_isend_wait(me, index, FMPL_COMM_WORLD, &ier));
        return;
    default:
        OK(fmpl_send_any(out, n, me, index, FMPL_COMM_WORLD, &ier));
    }
}

static void *sender(void *out) {
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = length_of(round);
        fill(out, n, round);
        pthread_barrier_wait(&meeting);
        if (is_sender_late(round))
            dawdle(round);
        send_to_self(out, n, round % INDICES, send_of(round));
    }
    return NULL;
}

static void receive(void *in, size_t n, int index, int round) {
    int from = by_index(round) ? index : FMPL_TAG_ANY;
    if (send_of(round) == SEND_ANY) {
        OK(fmpl_recv_any(in, n, from, FMPL_COMM_WORLD, &ier));
        return;
    }
    if (way_of(round) == RECV) {
        OK(fmpl_recv(in, n, me, from, FMPL_COMM_WORLD, &ier));
        return;
    }
    OK(fmpl_irecv(in, n, me, from, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv_wait(me, from, FMPL_COMM_WORLD, &ier));
}

int main(int argc, char **argv) {
    int provided;
    pthread_t other;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    start(INDICES);
    char *out = malloc(LONGEST), *in = malloc(LONGEST);
    CHECK(out && in);
    CHECK(pthread_barrier_init(&meeting, NULL, 2) == 0);
    CHECK(pthread_create(&other, NULL, sender, out) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = length_of(round);
        memset(in, 0x5A, n);
        pthread_barrier_wait(&meeting);
        if (!is_sender_late(round))
            dawdle(round);
        receive(in, n, round % INDICES, round);
        CHECK(holds(in, n, round));
    }
    CHECK(pthread_join(other, NULL) == 0);
    free(out);
    free(in);
    end("threads_self");
    MPI_Finalize();
    return 0;
}
