/* Ranks that outnumber their processors, all computing: rank i stays on the first or second processor. By WHAT, and by
 * bytes:
 *
 *   first-test  per cent of operations (HOW, see kacc_mpi.h) that the first test finds done after the rank was away from its
 *               processor; only those that all ranks had come to by then
 *   wall        milliseconds of 1,000 rounds: the operation is started, products are computed for 1 ms of a
 *               processor's time, and it is waited for. With twice as many ranks as processors 2,000 at best */
#define _GNU_SOURCE
#include "kacc_mpi.h"

enum { ROUNDS = 1000, ROUNDS_HASTY = 20, WALLS = 3 };

/* Between two products a rank was away if that took so much longer, in seconds: less than a time slice. */
#define AWAY 0.5e-3
/* So long, in seconds, a rank waits to be interrupted. */
#define PATIENCE 50e-3
/* What a rank computes in a round, in seconds. */
#define WORK 1e-3
/* With less time for a value than this, in seconds, it is hasty. */
#define HASTE 10e-3

/* One operation on one rank. */
struct seen {
    double came, tested; /* when it was started, and when the test was made; never: 0 */
    int done;
};

static struct seen first_test(void) {
    struct seen seen = {0};
    double last, now;
    operation_prepare();
    kacc_meet();
    seen.came = bench_now();
    operation_begin();
    last = now = bench_now();
    while (now - last < AWAY && now - seen.came < PATIENCE) {
        last = now;
        product();
        now = bench_now();
    }
    if (now - last >= AWAY)
        seen.tested = now;
    seen.done = operation_test();
    if (!seen.done)
        do
            product();
        while (!operation_test());
    operation_check();
    return seen;
}

/* Counts what the ranks saw of one operation. */
static void count(const struct seen *all, int *counted, int *done) {
    double last = 0;
    for (int i = 0; i < kacc_ranks; i++)
        last = all[i].came > last ? all[i].came : last;
    for (int i = 0; i < kacc_ranks; i++)
        if (all[i].tested > last) {
            ++*counted;
            *done += all[i].done;
        }
}

/* Per cent; not a number if no rank was ever away. */
static double found_done(void) {
    int counted = 0, done = 0, samples = 5 + (int)(2e3 * bench.seconds);
    for (int s = 0; s < samples; s++) {
        struct seen mine = first_test(), all[kacc_ranks];
        kacc_tell(&mine, sizeof mine, all);
        count(all, &counted, &done);
    }
    return counted ? 100.0 * done / counted : NAN;
}

/* Milliseconds of 1,000 rounds, the slowest rank's; not a number if the time of a product changed. */
static double wall(void) {
    int rounds = bench.seconds < HASTE ? ROUNDS_HASTY : ROUNDS;
    for (int attempt = 0; attempt < WALLS; attempt++) {
        double before = product_alone(), start, seconds;
        long work = (long)(WORK / before) + 1;
        kacc_meet();
        start = bench_now();
        for (int i = 0; i < rounds; i++) {
            operation_prepare();
            operation_begin();
            products(work);
            operation_wait();
            operation_check();
        }
        seconds = longest(bench_now() - start);
        if (longest(changed(before, product_alone())) == 0)
            return 1e3 * seconds * ROUNDS / rounds;
    }
    return NAN;
}

int main(int argc, char **argv) {
    kacc_init(&argc, &argv, 1);
    product_of(bench.what);
    stay_on(kacc_rank % 2);
    for (int i = 0; i < bench.count; i++) {
        operation_make(bench_value(i));
        bench_figure(i, bench_is("wall") ? wall() : found_done());
        operation_free();
    }
    bench_finish();
    return 0;
}
