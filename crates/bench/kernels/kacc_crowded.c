/* Ranks that outnumber their processors, all computing: rank i stays on the first or second processor. By WHAT, and by
 * bytes:
 *
 *   first-test  per cent of operations (HOW, see kacc_mpi.h) that the first test finds done after the rank was away from its
 *               processor; only those that all ranks had come to by then
 *   done        microseconds from the last rank's start until the kernel had the result, by the kernel's own time stamp; only
 *               our library in the kernel's receive path has one
 *   wall        milliseconds of 1,000 rounds: the operation is started, products are computed for 1 ms of the
 *               thread's time on a processor, and it is waited for. With twice as many ranks as processors 2,000 at best. (By
 *               time and not by number, as what a product takes changes by more than what libraries differ by)
 *
 * or one of these after "barrier-", where no bytes play a part. */
#define _GNU_SOURCE
#include "kacc_mpi.h"

enum { ROUNDS = 1000, ROUNDS_HASTY = 20 };

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

/* The number of the variable that has the kernel's time stamp; -1 if the library has none. */
static int stamp = -1;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;

static void stamp_find(void) {
    int level, count;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    if (MPI_T_pvar_get_index("yamabiko_softirq_ended", MPI_T_PVAR_CLASS_GENERIC, &stamp) != MPI_SUCCESS) {
        stamp = -1;
        return;
    }
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, stamp, NULL, &handle, &count);
}

static void stamp_leave(void) {
    if (stamp >= 0)
        MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

/* When an operation was started here, and when the kernel had its result, in seconds. */
struct ended {
    double came, ended;
};

static struct ended one_ended(void) {
    struct ended mine;
    unsigned long long nanoseconds = 0;
    operation_prepare();
    kacc_meet();
    mine.came = bench_now();
    operation_begin();
    do
        product();
    while (!operation_test());
    operation_check();
    MPI_T_pvar_read(session, handle, &nanoseconds);
    mine.ended = 1e-9 * (double)nanoseconds;
    return mine;
}

/* Microseconds: the median; not a number where the kernel ended none. */
static double done(void) {
    double microseconds[SAMPLES_MOST];
    int samples = 5 + (int)(2e3 * bench.seconds);
    if (stamp < 0)
        return NAN;
    samples = samples > SAMPLES_MOST ? SAMPLES_MOST : samples;
    for (int s = 0; s < samples; s++) {
        struct ended mine = one_ended(), all[kacc_ranks];
        double came = 0, ended = 0;
        kacc_tell(&mine, sizeof mine, all);
        for (int i = 0; i < kacc_ranks; i++) {
            came = all[i].came > came ? all[i].came : came;
            ended = all[i].ended > ended ? all[i].ended : ended;
        }
        /* The stamp of an earlier one: this one ran elsewhere. */
        if (ended < came)
            return NAN;
        microseconds[s] = 1e6 * (ended - came);
    }
    return bench_median(microseconds, samples);
}

/* Seconds that this thread had a processor. */
static double thread_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Products for so many seconds of the thread's; how much longer they took. */
static double compute(double seconds) {
    double end = thread_now() + seconds, now;
    do {
        product();
        now = thread_now();
    } while (now < end);
    return now - end;
}

/* Milliseconds of 1,000 rounds, the slowest rank's. */
static double wall(void) {
    int rounds = bench.seconds < HASTE ? ROUNDS_HASTY : ROUNDS;
    double start, beyond = 0;
    kacc_meet();
    start = bench_now();
    for (int i = 0; i < rounds; i++) {
        operation_prepare();
        operation_begin();
        /* All rounds together are as long as they shall be. */
        beyond = compute(WORK - beyond);
        operation_wait();
        operation_check();
    }
    return 1e3 * longest(bench_now() - start) * ROUNDS / rounds;
}

static double figure(void) {
    return bench_is("wall") ? wall() : bench_is("done") ? done() : found_done();
}

int main(int argc, char **argv) {
    const char *barrier = "barrier-";
    kacc_init(&argc, &argv, 1);
    if (!strncmp(bench.what, barrier, strlen(barrier)))
        bench.what += strlen(barrier);
    product_of(bench.what);
    if (bench_is("done"))
        stamp_find();
    stay_on(kacc_rank % 2);
    for (int i = 0; i < bench.count; i++) {
        operation_make(bench_value(i));
        bench_figure(i, figure());
        operation_free();
    }
    if (bench_is("done"))
        stamp_leave();
    bench_finish();
    return 0;
}
