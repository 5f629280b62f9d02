/* Messages of a few bytes, which take a path of their own: in any mixture with longer ones, with sends and receives of every form, through
 * communicators that come and go, and from a process that was forked. What comes through an index is what was sent there, in order. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 6, LONGEST = 60, ROUNDS = 400 };

/* The same numbers everywhere for a message, by who sends it and which it is. */
static unsigned draw(int from, int index, int number, unsigned of) {
    unsigned x = (unsigned)(from * 7919 + index * 104729 + number * 1299709) * 2654435761u;
    return (x >> 16) % of;
}

static size_t length(int from, int index, int number) {
    return draw(from, index, number, 3) ? draw(from, index, number, 25) : draw(from, index, number, LONGEST);
}

static int seed(int from, int index, int number) { return (int)draw(from, index, number, 251); }

/* One message to the next process and one from the last, through one index: each posts first, or sends first, or waits long. */
static void exchange(int comm, int rank, int ranks, int index, int number) {
    unsigned char out[LONGEST], in[LONGEST + 1];
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, flag = 0, form = (int)draw(rank, index, number, 5);
    size_t sent = length(rank, index, number), wanted = length(last, index, number);
    fill(out, sent, seed(rank, index, number));
    memset(in, 0xee, sizeof in);
    if (form == 0) { /* the send begins first, and ends when its receive is there */
        OK(fmpl_isend(out, sent, next, index, comm, &ier));
        OK(fmpl_recv(in, wanted, last, index, comm, &ier));
        OK(fmpl_isend_wait(next, index, comm, &ier));
    } else {
        OK(fmpl_irecv(in, wanted, last, index, comm, &ier));
        GIVES(FMPL_ERR_BUSY, fmpl_irecv(in, wanted, last, index, comm, &ier));
        OK(fmpl_send(out, sent, next, index, comm, &ier));
        while (form < 3 && !flag)
            OK(fmpl_irecv_test(last, index, comm, &flag, &ier));
        if (!flag)
            OK(fmpl_irecv_wait(last, index, comm, &ier));
        GIVES(FMPL_ERR_NOTHING, fmpl_irecv_wait(last, index, comm, &ier));
    }
    CHECK(holds(in, wanted, seed(last, index, number)));
    for (size_t i = wanted; i < sizeof in; i++)
        CHECK(in[i] == 0xee);
}

static void mixture(int comm) {
    int rank, ranks;
    OK(fmpl_comm_rank(comm, &rank, &ier));
    OK(fmpl_comm_size(comm, &ranks, &ier));
    for (int number = 0; number < ROUNDS; number++)
        exchange(comm, rank, ranks, number % COUNT, number);
}

/* A message that is longer than its receive, which was posted as a short one: told to both. */
static void truncated(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    unsigned char out[LONGEST], in[LONGEST];
    fill(out, sizeof out, 3);
    for (size_t sent = 0; sent < sizeof out; sent += 5)
        for (size_t room = 0; room <= 24; room += 4) {
            memset(in, 0xee, sizeof in);
            OK(fmpl_irecv(in, room, last, 0, FMPL_COMM_WORLD, &ier));
            meet();
            int code = sent > room ? FMPL_ERR_TRUNCATE : FMPL_SUCCESS;
            GIVES(code, fmpl_send(out, sent, next, 0, FMPL_COMM_WORLD, &ier));
            size_t got = 0;
            int index;
            GIVES(code, fmpl_irecv_wait_status(last, 0, FMPL_COMM_WORLD, &got, &index, &ier));
            CHECK(got == sent && index == 0 && holds(in, sent < room ? sent : room, 3) && in[room] == 0xee);
        }
}

/* Receives from any index among those of one: a message goes to the receive of its index, if there is one. */
static void any_index(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size, out = me, ours = -1, any = -1;
    for (int i = 0; i < 50; i++) {
        OK(fmpl_irecv(&any, sizeof any, last, FMPL_TAG_ANY, FMPL_COMM_WORLD, &ier));
        OK(fmpl_irecv(&ours, sizeof ours, last, 1, FMPL_COMM_WORLD, &ier));
        meet();
        out = me * 100 + i;
        OK(fmpl_send(&out, sizeof out, next, 1, FMPL_COMM_WORLD, &ier));
        OK(fmpl_irecv_wait(last, 1, FMPL_COMM_WORLD, &ier));
        CHECK(ours == last * 100 + i);
        out = -me - i;
        OK(fmpl_send(&out, sizeof out, next, 1, FMPL_COMM_WORLD, &ier));
        OK(fmpl_irecv_wait(last, FMPL_TAG_ANY, FMPL_COMM_WORLD, &ier));
        CHECK(any == -last - i);
    }
}

/* What was sent while no receive was there goes first, also when others are posted by then. */
static void in_order(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    OK(fmpl_sendbuf_set(NULL, 4096, 0, &ier));
    for (int round = 0; round < 50; round++) {
        int out, in;
        for (out = 0; out < 5; out++)
            OK(fmpl_send(&out, sizeof out, next, 2, FMPL_COMM_WORLD, &ier));
        for (int i = 0; i < 5; i++) {
            OK(fmpl_recv(&in, sizeof in, last, 2, FMPL_COMM_WORLD, &ier));
            CHECK(in == i);
        }
    }
    for (int spooled = 1, sent; spooled;)
        OK(fmpl_sendbuf_check(&sent, &spooled, &ier));
    OK(fmpl_sendbuf_set(NULL, 0, FMPL_INFINITE, &ier));
}

/* Numbers of communicators are used again, for other processes. */
static void communicators(void) {
    for (int round = 0; round < 6; round++) {
        /* All, the lower and the upper half, or those of every other rank. */
        int key = round % 3 == 0 ? 1 : round % 3 == 1 ? 1 + (me >= size / 2) : 1 + me % 2, comm;
        OK(fmpl_comm_create(&comm, key, &ier));
        mixture(comm);
        mixture(FMPL_COMM_WORLD);
        mixture(comm);
        int freed = comm, x = 0;
        OK(fmpl_comm_free(&comm, &ier));
        GIVES(FMPL_ERR_COMM, fmpl_send(&x, sizeof x, 0, 0, freed, &ier));
        GIVES(FMPL_ERR_COMM, fmpl_irecv(&x, sizeof x, 0, 0, freed, &ier));
    }
}

static void refused(void) {
    int next = (me + 1) % size, x = 0;
    GIVES(FMPL_ERR_RANK, fmpl_send(&x, sizeof x, size, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_RANK, fmpl_irecv(&x, sizeof x, -1, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_INDEX, fmpl_send(&x, sizeof x, next, COUNT, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_INDEX, fmpl_irecv(&x, sizeof x, next, COUNT, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_INDEX, fmpl_send(&x, sizeof x, next, -2, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_send(NULL, sizeof x, next, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_recv(NULL, sizeof x, next, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_SIZE, fmpl_send(&x, (size_t)-1, next, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_COMM, fmpl_send(&x, sizeof x, 0, 0, 77, &ier));
}

/* A process that was forked sends and receives nothing, and what it tries does not reach anybody. */
static void forked(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size, in = -1, out = me;
    OK(fmpl_irecv(&in, sizeof in, last, 3, FMPL_COMM_WORLD, &ier));
    meet();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int x = 666;
        int codes = fmpl_send(&x, sizeof x, next, 3, FMPL_COMM_WORLD, NULL) != FMPL_SUCCESS &&
                    fmpl_irecv_wait(last, 3, FMPL_COMM_WORLD, NULL) != FMPL_SUCCESS &&
                    fmpl_irecv(&x, sizeof x, last, 4, FMPL_COMM_WORLD, NULL) != FMPL_SUCCESS;
        _exit(codes ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    meet();
    OK(fmpl_send(&out, sizeof out, next, 3, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv_wait(last, 3, FMPL_COMM_WORLD, &ier));
    CHECK(in == last);
}

/* Receives that are posted at the end are given back, and what is called after that is told so. */
static void ends(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size, in = -1, other = -1, x = 7;
    mixture(FMPL_COMM_WORLD);
    OK(fmpl_irecv(&in, sizeof in, last, 0, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv(&other, sizeof other, last, 1, FMPL_COMM_WORLD, &ier));
    OK(fmpl_send(&x, sizeof x, next, 1, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv_wait(last, 1, FMPL_COMM_WORLD, &ier));
    OK(fmpl_finalize(&ier));
    CHECK(fmpl_send(&x, sizeof x, next, 0, FMPL_COMM_WORLD, NULL) != FMPL_SUCCESS);
    CHECK(fmpl_irecv(&x, sizeof x, last, 1, FMPL_COMM_WORLD, NULL) != FMPL_SUCCESS);
    CHECK(fmpl_irecv_wait(last, 0, FMPL_COMM_WORLD, NULL) != FMPL_SUCCESS);
    CHECK(in == -1 && other == x);
}

int main(void) {
    start(COUNT);
    mixture(FMPL_COMM_WORLD);
    truncated();
    any_index();
    in_order();
    communicators();
    refused();
    forked();
    ends();
    if (me == 0)
        puts("ok short");
    return 0;
}
