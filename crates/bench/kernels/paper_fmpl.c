/* The experiments of FMPL's paper, on FMPL. WHAT and the figure, by VALUE:
 *
 *   latency     microseconds one way, by bytes; HOW: blocking, or ahead (receives are posted before)
 *   post        microseconds of an fmpl_irecv of 8 bytes
 *   send        microseconds of an fmpl_send of 8 bytes whose receive is posted already
 *   take        microseconds of an fmpl_irecv_wait for 8 bytes that are there already
 *   gap         microseconds of an fmpl_irecv, by how many are posted one after the other
 *   posted      microseconds one way of 4 bytes, by how many receives both sides have posted before
 *   ping-pong   gigabytes a second, by bytes; HOW: mapped (fmpl_alloc) or heap
 *   barrier, bcast, reduce   microseconds, by ranks, of 8 KiB; HOW: hardware or software
 *   bcast-bandwidth          gigabytes a second, by bytes; HOW: mapped, heap, or software (on the heap) */
#include "paper.h"
#include <fmpl.h>

enum { WORLD = FMPL_COMM_WORLD, AHEAD = 8, PARTS = 256, FREE = 16 };

static char *out, *in;
static size_t bytes;
static int depth;
static double clock_cost;

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    fmpl_abort(1, NULL);
}

static void ok(int code) {
    if (code != FMPL_SUCCESS)
        fail(fmpl_strerror(code));
}

static void meet(void) {
    ok(fmpl_barrier(WORLD, NULL));
}

static void greatest(double *numbers, int count) {
    double work[BENCH_BATCHES];
    ok(fmpl_allreduce(numbers, (size_t)count, fmpl_dmax, WORLD, work, NULL));
}

static void post(int index, size_t size) {
    ok(fmpl_irecv(in + (size_t)index * size, size, !me, index, WORLD, NULL));
}

static void take(int index) {
    ok(fmpl_irecv_wait(!me, index, WORLD, NULL));
}

static void send(int index, size_t size) {
    ok(fmpl_send(out, size, !me, index, WORLD, NULL));
}

static double blocking(int rounds) {
    double start = bench_now();
    for (int i = 0; me < 2 && i < rounds; i++) {
        if (me == 0) {
            send(0, bytes);
            ok(fmpl_recv(in, bytes, 1, 0, WORLD, NULL));
        } else {
            ok(fmpl_recv(in, bytes, 0, 0, WORLD, NULL));
            send(0, bytes);
        }
    }
    return me == 0 ? bench_now() - start : 0;
}

/* A few receives are always posted, each again when nobody waits for that. */
static double ahead(int rounds) {
    double start;
    for (int i = 0; i < AHEAD && i < rounds; i++)
        post(i, bytes);
    meet();
    start = bench_now();
    for (int i = 0; i < rounds; i++) {
        int again = me == 0 ? i - 1 : i;
        if (me == 1)
            take(i % AHEAD);
        send(i % AHEAD, bytes);
        if (again >= 0 && again + AHEAD < rounds)
            post(again % AHEAD, bytes);
        if (me == 0)
            take(i % AHEAD);
    }
    return me == 0 ? bench_now() - start : 0;
}

/* One part of the way of messages of 8 bytes that go from rank 0 to rank 1, the others outside of the time. */
static double parts(int rounds) {
    double seconds[3] = {0, 0, 0};
    for (int i = 0; i < rounds; i++) {
        double start = bench_now();
        for (int n = 0; me == 1 && n < PARTS; n++)
            post(n, 8);
        seconds[0] += bench_now() - start;
        meet();
        start = bench_now();
        for (int n = 0; me == 0 && n < PARTS; n++)
            send(n, 8);
        seconds[1] += bench_now() - start;
        meet();
        start = bench_now();
        for (int n = 0; me == 1 && n < PARTS; n++)
            take(n);
        seconds[2] += bench_now() - start;
        meet();
    }
    if (bench_is("send"))
        return me == 0 ? seconds[1] : 0;
    return me == 1 ? seconds[bench_is("post") ? 0 : 2] : 0;
}

/* Both sides post all receives, then messages go there and back. The clock runs meanwhile, or afterwards, when both
 * are known to be on their way. */
static double table2(int rounds) {
    double seconds = 0, start;
    for (int i = 0; i < rounds; i++) {
        meet();
        start = bench_now();
        for (int n = 0; n < depth; n++)
            post(n, 4);
        seconds += bench_is("gap") ? bench_now() - start - clock_cost : 0;
        post(depth, 4);
        meet();
        if (me == 0) {
            send(depth, 4);
            take(depth);
        } else {
            take(depth);
            send(depth, 4);
        }
        start = bench_now();
        for (int n = 0; n < depth; n++) {
            if (me == 1)
                take(n);
            send(n, 4);
            if (me == 0)
                take(n);
        }
        seconds += bench_is("gap") ? 0 : bench_now() - start - clock_cost;
    }
    return me == 0 ? paper_told(seconds, rounds) : 0;
}

static double barrier(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        meet();
    return bench_now() - start;
}

static double bcast(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        ok(fmpl_bcast(out, bytes, paper_root(i), WORLD, NULL));
    paper_turned(rounds);
    return bench_now() - start;
}

static double reduce(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        ok(fmpl_reduce(out, bytes / PAPER_ELEMENT, fmpl_dsum, paper_root(i), WORLD, in, NULL));
    paper_turned(rounds);
    return bench_now() - start;
}

static double of_pair(void) {
    if (bench_is("latency"))
        return 1e6 * paper_measure(strcmp(bench.how, "ahead") ? blocking : ahead) / 2;
    if (bench_is("ping-pong"))
        return 2e-9 * (double)bytes / paper_measure(blocking);
    if (bench_is("gap"))
        return 1e6 * paper_measure(table2) / depth;
    if (bench_is("posted"))
        return 1e6 * paper_measure(table2) / depth / 2;
    return 1e6 * paper_measure(parts) / PARTS;
}

static double of_all(void) {
    if (bench_is("barrier"))
        return 1e6 * paper_measure(barrier);
    if (bench_is("reduce"))
        return 1e6 * paper_measure(reduce);
    if (bench_is("bcast"))
        return 1e6 * paper_measure(bcast);
    return 1e-9 * (double)bytes / paper_measure(bcast);
}

static int is_of_all(void) {
    return bench_is("barrier") || bench_is("reduce") || bench_is("bcast") || bench_is("bcast-bandwidth");
}

static int is_by_depth(void) {
    return bench_is("gap") || bench_is("posted");
}

static void *memory(size_t size) {
    void *got = NULL;
    if (strcmp(bench.how, "mapped"))
        return paper_memory(size);
    ok(fmpl_alloc(size + 1, &got, NULL));
    memset(got, 0, size + 1);
    return got;
}

static void release(void *got) {
    if (strcmp(bench.how, "mapped"))
        paper_free(got);
    else
        ok(fmpl_free(got, NULL));
}

/* What a value means for buffers: the bytes of a message, and of all that are received. */
static size_t plan(size_t value) {
    depth = is_by_depth() ? (int)value : 0;
    if (depth)
        return (bytes = 4) * (size_t)(depth + 1);
    if (bench_is("bcast") || bench_is("reduce"))
        return bytes = PAPER_ARRAY;
    if (bench_is("barrier") || bench_is("post") || bench_is("send") || bench_is("take"))
        return (bytes = 8) * PARTS;
    bytes = value;
    return bench_is("latency") ? value * AHEAD : value;
}

int main(int argc, char **argv) {
    int indices = PARTS;
    if (!bench_arguments(argc, argv)) {
        fprintf(stderr, "arguments: MILLISECONDS WHAT HOW VALUE...\n");
        return 1;
    }
    for (int i = 0; is_by_depth() && i < bench.count; i++)
        if (bench_value(i) + FREE > (size_t)indices)
            indices = (int)bench_value(i) + FREE;
    ok(fmpl_init(NULL, NULL, indices, NULL));
    ok(fmpl_comm_rank(WORLD, &me, NULL));
    ok(fmpl_comm_size(WORLD, &ranks, NULL));
    if (!is_of_all() && ranks != 2)
        fail("wants 2 ranks");
    if (!strcmp(bench.how, "software"))
        ok(fmpl_collectives_set(FMPL_COLLECTIVES_SOFTWARE, NULL));
    clock_cost = paper_clock();
    if (me == 0)
        bench_library("FMPL");
    for (int i = 0; i < bench.count; i++) {
        size_t received = plan(bench_value(i));
        out = memory(bytes);
        in = memory(received);
        paper_figure(i, is_of_all() ? of_all() : of_pair());
        meet();
        release(out);
        release(in);
    }
    if (me == 0)
        bench_end();
    ok(fmpl_finalize(NULL));
    return 0;
}
