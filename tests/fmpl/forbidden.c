/* Messages and broadcasts whose data the kernel copies, until it is forbidden to in the middle: all come whole.
 *
 * Arguments: what is refused (write, read or memory, which is both), and from which rank on. */
#include "check.h"
#include "../c/refuse.h"

static const size_t lens[] = {16384, 20000, 32768, 65537, 300001, 1 << 20, 3000001};
enum { LENS = sizeof lens / sizeof *lens, MOST = 3000001, INDICES = 3 };

static unsigned char *in[INDICES], *out;

static void work(int ms) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do
        clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < ms);
}

/* One after the other, to a receiver that waits, comes late, or looks at them in the wrong order. */
static void to_next(size_t n, int seed) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    for (int late = 0; late < 2; late++) {
        fill(out, n, seed + me);
        for (int i = 0; i < INDICES; i++)
            OK(fmpl_irecv(in[i], n, last, i, FMPL_COMM_WORLD, &ier));
        meet();
        for (int i = 0; i < INDICES; i++)
            OK(fmpl_isend(out, n, next, i, FMPL_COMM_WORLD, &ier));
        if (late)
            work(2);
        for (int i = INDICES; i-- > 0;) {
            OK(fmpl_irecv_wait(last, i, FMPL_COMM_WORLD, &ier));
            CHECK(holds(in[i], n, seed + last));
        }
        for (int i = 0; i < INDICES; i++)
            OK(fmpl_isend_wait(next, i, FMPL_COMM_WORLD, &ier));
    }
}

/* Nobody looks at its receive before its own send is over. */
static void crosswise(size_t n, int seed) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    fill(out, n, seed + me);
    OK(fmpl_irecv(in[0], n, last, 0, FMPL_COMM_WORLD, &ier));
    OK(fmpl_send(out, n, next, 0, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv_wait(last, 0, FMPL_COMM_WORLD, &ier));
    CHECK(holds(in[0], n, seed + last));
}

/* Of two ranks one has a shorter receive than the other sends. */
static void too_long(size_t n) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    fill(out, n, me);
    memset(in[0], 0xee, n);
    OK(fmpl_irecv(in[0], n / 2, last, 0, FMPL_COMM_WORLD, &ier));
    meet();
    GIVES(FMPL_ERR_TRUNCATE, fmpl_send(out, n, next, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_TRUNCATE, fmpl_irecv_wait(last, 0, FMPL_COMM_WORLD, &ier));
    for (size_t i = n / 2; i < n; i++)
        CHECK(in[0][i] == 0xee);
}

static void broadcast(size_t n, int seed) {
    for (int root = 0; root < size; root++) {
        if (me == root)
            fill(in[1], n, seed + root);
        else
            memset(in[1], 0, n);
        OK(fmpl_bcast(in[1], n, root, FMPL_COMM_WORLD, &ier));
        CHECK(holds(in[1], n, seed + root));
    }
}

static void all(int seed) {
    for (int l = 0; l < LENS; l++) {
        to_next(lens[l], seed + l);
        crosswise(lens[l], seed + 10 + l);
        broadcast(lens[l], seed + 20 + l);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "memory";
    int from = argc > 2 ? atoi(argv[2]) : 0;
    start(INDICES);
    out = malloc(MOST);
    for (int i = 0; i < INDICES; i++)
        in[i] = malloc(MOST);
    CHECK(out && in[0] && in[1] && in[2]);
    all(1);
    all(2);
    too_long(lens[LENS - 1]);
    meet();
    if (me >= from)
        refuse_copies(strcmp(what, "read") != 0, strcmp(what, "write") != 0);
    all(3);
    all(4);
    too_long(lens[LENS - 1]);
    meet();
    end("forbidden");
    return 0;
}
