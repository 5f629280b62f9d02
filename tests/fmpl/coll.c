/* Communicators and collectives, without MPI in the program: by flags and faces, and by messages; communicators that overlap,
 * predefined functions and the program's own. */
#include "check.h"
#include <complex.h>
#include <math.h>

static void cast(int comm, int rank, int root, size_t n, int seed) {
    char *b = malloc(n + 1);
    if (rank == root)
        fill(b, n, seed);
    else
        memset(b, 0xee, n);
    OK(fmpl_bcast(b, n, root, comm, &ier));
    CHECK(holds(b, n, seed));
    free(b);
}

static int sum(int comm, int mine, int root) {
    enum { N = 900 };
    int b[N], work[N];
    for (int i = 0; i < N; i++)
        b[i] = mine + i;
    if (root < 0)
        OK(fmpl_allreduce(b, N, fmpl_isum, comm, work, &ier));
    else
        OK(fmpl_reduce(b, N, fmpl_isum, root, comm, work, &ier));
    int p;
    OK(fmpl_comm_size(comm, &p, &ier));
    int rank;
    OK(fmpl_comm_rank(comm, &rank, &ier));
    if (root < 0 || root == rank)
        for (int i = 1; i < N; i++)
            CHECK(b[i] == b[0] + i * p);
    return b[0];
}

static void world(void) {
    static const size_t lens[] = {0, 1, 24, 8192, 65536, 65537, 1 << 20};
    for (size_t l = 0; l < sizeof lens / sizeof *lens; l++)
        for (int root = 0; root < size; root++)
            cast(FMPL_COMM_WORLD, me, root, lens[l], root + (int)l);
    for (int i = 0; i < 200; i++)
        cast(FMPL_COMM_WORLD, me, i % size, 100, i);
    for (int root = 0; root < size; root++) {
        int got = sum(FMPL_COMM_WORLD, me + 1, root);
        CHECK(me != root || got == size * (size + 1) / 2);
    }
    CHECK(sum(FMPL_COMM_WORLD, me + 1, -1) == size * (size + 1) / 2);
}

/* Nobody leaves a barrier before all are in: each tells its clock, and the latest to enter is before the first to leave. */
static void barriers(void) {
    for (int round = 0; round < 8; round++) {
        if (me == round % size)
            sleep_ms(5);
        double in = fmpl_wtime();
        meet();
        double out = fmpl_wtime(), work;
        /* fmpl_dmax goes by absolute values, and these are positive. */
        OK(fmpl_allreduce(&in, 1, fmpl_dmax, 0, &work, &ier));
        CHECK(in <= out);
    }
}

/* Ranks 2i and 2i+1 in one, 2i+1 and 2i+2 in the other: neighbours in two communicators that overlap, used in such
 * an order that both are under way at once. */
static void overlapping(void) {
    int even, odd;
    OK(fmpl_comm_create(&even, 1 + me / 2, &ier));
    OK(fmpl_comm_create(&odd, 1 + (me + 1) / 2, &ier));
    int re, ro, pe, po;
    OK(fmpl_comm_rank(even, &re, &ier));
    OK(fmpl_comm_rank(odd, &ro, &ier));
    OK(fmpl_comm_size(even, &pe, &ier));
    OK(fmpl_comm_size(odd, &po, &ier));
    for (int round = 0; round < 50; round++) {
        cast(even, re, round % pe, 70000, me / 2 + round);
        OK(fmpl_barrier(odd, &ier));
        cast(odd, ro, (round + 1) % po, 66000, (me + 1) / 2 * 3 + round);
        OK(fmpl_barrier(even, &ier));
        cast(FMPL_COMM_WORLD, me, round % size, 3000, round);
    }
    OK(fmpl_comm_free(&odd, &ier));
    OK(fmpl_comm_free(&even, &ier));
    CHECK(odd == FMPL_COMM_NULL && even == FMPL_COMM_NULL);
}

static void keys(void) {
    for (int round = 0; round < 10; round++) {
        int comm = 77, out = round % size;
        OK(fmpl_comm_create(&comm, me == out ? 0 : 5 + (me > out), &ier));
        if (me == out) {
            CHECK(comm == FMPL_COMM_NULL);
            continue;
        }
        int rank, p, below = me < out;
        OK(fmpl_comm_rank(comm, &rank, &ier));
        OK(fmpl_comm_size(comm, &p, &ier));
        CHECK(p == (below ? out : size - out - 1) && rank == (below ? me : me - out - 1));
        cast(comm, rank, p - 1, 9000, round);
        CHECK(sum(comm, 1, -1) == p);
        /* A message by ranks of this communicator. */
        if (p > 1) {
            int b = me, next = (rank + 1) % p, last = (rank + p - 1) % p, in;
            OK(fmpl_irecv(&in, sizeof in, last, 3, comm, &ier));
            OK(fmpl_send(&b, sizeof b, next, 3, comm, &ier));
            OK(fmpl_irecv_wait(last, 3, comm, &ier));
            CHECK(in == (rank == 0 ? me + p - 1 : me - 1));
        }
        OK(fmpl_comm_free(&comm, &ier));
    }
    int none = 999;
    GIVES(FMPL_ERR_COMM, fmpl_comm_free(&none, &ier));
    GIVES(FMPL_ERR_COMM, fmpl_barrier(none, &ier));
}

typedef struct { double v; int row, column; } placed;

static void functions(void) {
    double complex z[2] = {me - I * me, size - me}, zw[2];
    OK(fmpl_allreduce(z, 2, fmpl_zmax, 0, zw, &ier));
    CHECK(z[0] == (size - 1) * (1 - I) && z[1] == size);
    float f[2] = {-1.f - me, 2.f + me}, fw[2];
    OK(fmpl_allreduce(f, 2, fmpl_smin, 0, fw, &ier));
    CHECK(f[0] == -1.f && f[1] == 2.f);
    placed a[2] = {{me % 2 ? -7 : 7, me, 2}, {me + 1, me, 4}}, aw[2];
    OK(fmpl_allreduce(a, 2, fmpl_damax, 0, aw, &ier));
    CHECK(fabs(a[0].v) == 7 && a[0].row == 0 && a[1].v == size && a[1].row == size - 1 && a[1].column == 4);
    int n = 3, x[3] = {1, -9, 4}, y[3] = {2, 8, -5};
    fmpl_imax(x, y, &n);
    CHECK(x[0] == 2 && x[1] == -9 && x[2] == -5);
}

/* Strings of digits: shows the order, and calls FMPL and waits. */
typedef struct { char text[64]; } words;
static int calls;

static void join(void *inout, const void *in, const int *count) {
    words *a = inout;
    const words *b = in;
    for (int i = 0; i < *count; i++) {
        char both[130];
        snprintf(both, sizeof both, "(%s%s)", a[i].text, b[i].text);
        snprintf(a[i].text, sizeof a[i].text, "%.63s", both);
    }
    int moved, p;
    OK(fmpl_progress(&moved, &ier));
    GIVES(FMPL_ERR_REENTERED, fmpl_barrier(FMPL_COMM_WORLD, &ier));
    OK(fmpl_comm_size(FMPL_COMM_WORLD, &p, &ier));
    calls++;
}

static void own(int v, int root, char *to) {
    sprintf(to, "%d", (v + root) % size);
    for (int step = 1; step < size && !(v & step); step *= 2)
        if (v + step < size) {
            char theirs[64], both[130];
            own(v + step, root, theirs);
            snprintf(both, sizeof both, "(%s%s)", to, theirs);
            snprintf(to, 64, "%.63s", both);
        }
}

static void program_function(void) {
    words w, work;
    GIVES(FMPL_ERR_FUNCTION, fmpl_reduce(&w, 1, join, 0, 0, &work, &ier));
    GIVES(FMPL_ERR_FUNCTION, fmpl_reduce(&w, 1, NULL, 0, 0, &work, &ier));
    GIVES(FMPL_ERR_SIZE, fmpl_func_set(join, 0, &ier));
    OK(fmpl_func_set(join, sizeof(words), &ier));
    for (int root = 0; root < size; root++) {
        char expected[64];
        own(0, root, expected);
        sprintf(w.text, "%d", me);
        OK(fmpl_reduce(&w, 1, join, root, 0, &work, &ier));
        CHECK(me != root || !strcmp(w.text, expected));
    }
    CHECK(calls > 0 || size == 1);
}

static void refused(void) {
    int b[2] = {0, 0};
    GIVES(FMPL_ERR_RANK, fmpl_bcast(b, 8, size, 0, &ier));
    GIVES(FMPL_ERR_SIZE, fmpl_bcast(b, (size_t)-1, 0, 0, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_bcast(NULL, 8, 0, 0, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_allreduce(b, 2, fmpl_isum, 0, NULL, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_allreduce(b, 2, fmpl_isum, 0, b, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_reduce(b + 1, 2, fmpl_isum, 0, 0, b, &ier));
    GIVES(FMPL_ERR_SIZE, fmpl_allreduce(b, (size_t)1 << 62, fmpl_isum, 0, b, &ier));
    GIVES(FMPL_ERR_ARGUMENT, fmpl_collectives_set(9, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_comm_create(NULL, 1, &ier));
}

/* There is an end to communicators; those that are freed can be had again. */
static void all_of_them(void) {
    enum { MOST = 510 };
    static int made[MOST + 1];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < MOST; i++)
            OK(fmpl_comm_create(&made[i], 1, &ier));
        made[MOST] = FMPL_COMM_WORLD;
        GIVES(FMPL_ERR_MEMORY, fmpl_comm_create(&made[MOST], 1, &ier));
        CHECK(made[MOST] == FMPL_COMM_NULL);
        OK(fmpl_barrier(made[MOST - 1], &ier));
        for (int i = 0; i < MOST; i++)
            OK(fmpl_comm_free(&made[i], &ier));
    }
}

int main(void) {
    start(8);
    for (int which = FMPL_COLLECTIVES_AUTO; which <= FMPL_COLLECTIVES_SOFTWARE; which++) {
        meet();
        OK(fmpl_collectives_set(which, &ier));
        world();
        barriers();
        overlapping();
        keys();
    }
    meet();
    OK(fmpl_collectives_set(FMPL_COLLECTIVES_AUTO, &ier));
    functions();
    program_function();
    refused();
    all_of_them();
    end("coll");
    return 0;
}
