/* The stash: times, order, a full one, memory of three kinds, ten thousand unanswered sends, and that finalizing sends
 * what is left. */
#include "check.h"

static void check(int sent, int spooled) {
    int nsend = -1, nspool = -1;
    OK(fmpl_sendbuf_check(&nsend, &nspool, &ier));
    if (nsend != sent || nspool != spooled) {
        fprintf(stderr, "rank %d: %d sent and %d spooled, not %d and %d\n", me, nsend, nspool, sent, spooled);
        abort();
    }
}

static void drained(int sent) {
    int all = 0, nspool = 1;
    while (nspool > 0) {
        int nsend;
        OK(fmpl_sendbuf_check(&nsend, &nspool, &ier));
        all += nsend;
    }
    CHECK(all == sent);
}

/* Rank 0 sends, rank 1 receives late. */
static void times(void) {
    int b = 5;
    if (me == 0) {
        OK(fmpl_sendbuf_set(NULL, 1 << 20, 40, &ier));
        meet();
        double t = fmpl_wtime();
        OK(fmpl_send(&b, sizeof b, 1, 0, 0, &ier));
        CHECK(fmpl_wtime() - t >= 0.040);
        check(0, 1);
        OK(fmpl_isend(&b, sizeof b, 1, 0, 0, &ier));
        OK(fmpl_isend_wait(1, 0, 0, &ier));
        CHECK(fmpl_wtime() - t >= 0.080);
        check(0, 2);
        GIVES(FMPL_ERR_STASH, fmpl_sendbuf_set(NULL, 0, 0, &ier));
        meet();
        drained(2);
        /* Infinite: it comes back only when its receive has been posted, whatever the stash. */
        OK(fmpl_sendbuf_set(NULL, FMPL_GROWS, FMPL_INFINITE, &ier));
        meet();
        t = fmpl_wtime();
        OK(fmpl_send(&b, sizeof b, 1, 0, 0, &ier));
        check(0, 0);
    } else if (me == 1) {
        meet();
        meet();
        for (int i = 0; i < 2; i++) {
            b = 0;
            OK(fmpl_recv(&b, sizeof b, 0, 0, 0, &ier));
            CHECK(b == 5);
        }
        meet();
        sleep_ms(30);
        OK(fmpl_recv(&b, sizeof b, 0, 0, 0, &ier));
    } else {
        meet();
        meet();
        meet();
    }
    meet();
}

static void full(void *memory, size_t bytes) {
    char small[600], large[900];
    if (me == 0) {
        OK(fmpl_sendbuf_set(memory, bytes, 0, &ier));
        memset(small, 1, sizeof small);
        memset(large, 2, sizeof large);
        OK(fmpl_send(small, sizeof small, 1, 0, 0, &ier));
        check(0, 1);
        meet();
        OK(fmpl_send(large, sizeof large, 1, 1, 0, &ier));
        memset(small, 9, sizeof small);
        memset(large, 9, sizeof large);
        drained(1);
    } else if (me == 1) {
        meet();
        sleep_ms(20);
        OK(fmpl_recv(large, sizeof large, 0, 1, 0, &ier));
        OK(fmpl_recv(small, sizeof small, 0, 0, 0, &ier));
        CHECK(small[0] == 1 && small[599] == 1 && large[0] == 2 && large[899] == 2);
    } else {
        meet();
    }
    meet();
}

static void unanswered(int n, int indices) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    OK(fmpl_sendbuf_set(NULL, FMPL_GROWS, 0, &ier));
    for (int i = 0; i < n; i++)
        OK(fmpl_send(&i, sizeof i, next, i % indices, 0, &ier));
    meet();
    for (int i = 0; i < n; i++) {
        int b = -1;
        OK(fmpl_recv(&b, sizeof b, last, i % indices, 0, &ier));
        CHECK(b == i);
    }
    meet();
    drained(n);
}

int main(void) {
    static char memory[1100];
    start(16);
    if (size > 1) {
        times();
        full(memory, sizeof memory);
        full(NULL, 1024);
        unanswered(10000, 16);
        unanswered(300, 1);
    }
    /* To oneself, too. */
    int b = 3;
    OK(fmpl_sendbuf_set(NULL, FMPL_GROWS, 0, &ier));
    OK(fmpl_send(&b, sizeof b, me, 1, 0, &ier));
    b = 0;
    OK(fmpl_recv(&b, sizeof b, me, 1, 0, &ier));
    CHECK(b == 3);
    /* Finalizing sends what is left: the last receives what the others spooled, after they are in there. */
    if (me < size - 1) {
        OK(fmpl_send(&me, sizeof me, size - 1, 7, 0, &ier));
    } else {
        sleep_ms(30);
        for (int p = 0; p < size - 1; p++) {
            OK(fmpl_recv(&b, sizeof b, p, 7, 0, &ier));
            CHECK(b == p);
        }
    }
    end("stash");
    return 0;
}
