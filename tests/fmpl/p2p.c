/* Messages by (rank, index), without MPI in the program: lengths, indices, tests, any index, any source, and what is
 * refused. */
#include "check.h"

enum { COUNT = 40 };

static void lengths(void) {
    static const size_t lens[] = {0, 1, 8, 47, 48, 49, 64, 1000, 4096, 65536, 300001, 3 << 20};
    for (size_t l = 0; l < sizeof lens / sizeof *lens; l++) {
        size_t n = lens[l];
        for (int mapped = 0; mapped < 2; mapped++) {
            void *in = NULL, *out = malloc(n + 1);
            int ours = mapped && fmpl_alloc(n * size, &in, NULL) == FMPL_SUCCESS;
            if (!ours)
                in = malloc(n * size + 1);
            fill(out, n, me);
            for (int p = 0; p < size; p++)
                OK(fmpl_irecv((char *)in + n * p, n, p, l, FMPL_COMM_WORLD, &ier));
            for (int p = 0; p < size; p++)
                OK(fmpl_send(out, n, (me + p) % size, l, FMPL_COMM_WORLD, &ier));
            for (int p = 0; p < size; p++) {
                size_t got = 99;
                int index = 99;
                OK(fmpl_irecv_wait_status(p, l, FMPL_COMM_WORLD, &got, &index, &ier));
                CHECK(got == n && index == (int)l);
                CHECK(holds((char *)in + n * p, n, p));
            }
            free(out);
            if (ours)
                OK(fmpl_free(in, &ier));
            else
                free(in);
        }
    }
}

static void many_ahead(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    double in[COUNT], out[COUNT];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < COUNT; i++)
            OK(fmpl_irecv(&in[i], sizeof in[i], last, i, FMPL_COMM_WORLD, &ier));
        /* Sent in another order than posted, by both forms. */
        for (int k = 0; k < COUNT; k++) {
            int i = k * 7 % COUNT;
            out[i] = me * 1000 + i + round;
            if (k % 2)
                OK(fmpl_send(&out[i], sizeof out[i], next, i, FMPL_COMM_WORLD, &ier));
            else
                OK(fmpl_isend(&out[i], sizeof out[i], next, i, FMPL_COMM_WORLD, &ier));
        }
        for (int i = 0; i < COUNT; i++) {
            int flag = 0;
            while (!flag)
                OK(fmpl_irecv_test(last, i, FMPL_COMM_WORLD, &flag, &ier));
            CHECK(in[i] == last * 1000 + i + round);
        }
        for (int k = 0; k < COUNT; k += 2) {
            int flag = 0, i = k * 7 % COUNT;
            if (k % 4)
                OK(fmpl_isend_wait(next, i, FMPL_COMM_WORLD, &ier));
            else
                while (!flag)
                    OK(fmpl_isend_test(next, i, FMPL_COMM_WORLD, &flag, &ier));
        }
    }
}

/* A send to oneself that meets no receive for long costs no processor while this process waits for something else. */
static void waits_beside_own(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size, out = me, in = -1, other = -1;
    OK(fmpl_isend(&out, sizeof out, me, 1, FMPL_COMM_WORLD, &ier));
    meet();
    if (me == 0 && size > 1) {
        clock_t before = clock();
        OK(fmpl_recv(&other, sizeof other, last, 2, FMPL_COMM_WORLD, &ier));
        CHECK(clock() - before < CLOCKS_PER_SEC / 5);
    } else if (size > 1) {
        /* Once round the ring. */
        if (me == 1)
            sleep_ms(500);
        else
            OK(fmpl_recv(&other, sizeof other, last, 2, FMPL_COMM_WORLD, &ier));
        OK(fmpl_send(&out, sizeof out, next, 2, FMPL_COMM_WORLD, &ier));
    }
    OK(fmpl_recv(&in, sizeof in, me, 1, FMPL_COMM_WORLD, &ier));
    OK(fmpl_isend_wait(me, 1, FMPL_COMM_WORLD, &ier));
    CHECK(in == me);
    meet();
}

static void any_index(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    int in[3] = {-1, -1, -1}, own = -1, index;
    for (int i = 0; i < 3; i++)
        OK(fmpl_irecv(&in[i], sizeof in[i], last, FMPL_TAG_ANY, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv(&own, sizeof own, last, 5, FMPL_COMM_WORLD, &ier));
    meet();
    for (int i = 4; i < 8; i++)
        OK(fmpl_send(&i, sizeof i, next, i, FMPL_COMM_WORLD, &ier));
    static const int expected[3] = {4, 6, 7};
    for (int i = 0; i < 3; i++) {
        OK(fmpl_irecv_wait_status(last, FMPL_TAG_ANY, FMPL_COMM_WORLD, NULL, &index, &ier));
        CHECK(index == expected[i] && in[i] == index);
    }
    GIVES(FMPL_ERR_NOTHING, fmpl_irecv_wait(last, FMPL_TAG_ANY, FMPL_COMM_WORLD, &ier));
    OK(fmpl_irecv_wait(last, 5, FMPL_COMM_WORLD, &ier));
    CHECK(own == 5);
}

static void any_source(void) {
    if (me > 0) {
        char *large = malloc(100000);
        for (int i = 0; i < 10; i++) {
            int out[2] = {me, i};
            OK(fmpl_send_any(out, sizeof out, 0, 77000, FMPL_COMM_WORLD, &ier));
        }
        fill(large, 100000, me);
        OK(fmpl_send_any(large, 100000, 0, 5, FMPL_COMM_WORLD, &ier));
        free(large);
        /* Not the same domain. */
        OK(fmpl_send(&me, sizeof me, 0, 3, FMPL_COMM_WORLD, &ier));
    } else {
        int *next = calloc(size, sizeof *next);
        char *large = malloc(100000);
        for (int i = 0; i < 10 * (size - 1); i++) {
            int in[2], src = -1, index = -1;
            size_t n = 0;
            if (i % 3 == 0) {
                OK(fmpl_recv_any(in, sizeof in, 77000, FMPL_COMM_WORLD, &ier));
                src = in[0];
            } else {
                OK(fmpl_recv_any_from(in, sizeof in, 77000, FMPL_COMM_WORLD, &src, &n, &index, &ier));
                CHECK(n == sizeof in && index == 77000);
            }
            CHECK(src > 0 && src < size && in[0] == src && in[1] == next[src]++);
        }
        for (int i = 1; i < size; i++) {
            int src = -1, index = -1;
            OK(fmpl_recv_any_from(large, 100000, FMPL_TAG_ANY, FMPL_COMM_WORLD, &src, NULL, &index, &ier));
            CHECK(index == 5 && holds(large, 100000, src));
        }
        for (int p = 1; p < size; p++) {
            int in = -1;
            OK(fmpl_recv(&in, sizeof in, p, 3, FMPL_COMM_WORLD, &ier));
            CHECK(in == p);
        }
        free(next);
        free(large);
    }
    meet();
}

static void too_long(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    for (size_t n = 8; n <= 1 << 20; n *= 16) {
        char *out = malloc(2 * n), *in = calloc(n + 16, 1);
        fill(out, 2 * n, me);
        OK(fmpl_irecv(in, n, last, 1, FMPL_COMM_WORLD, &ier));
        meet();
        GIVES(FMPL_ERR_TRUNCATE, fmpl_send(out, 2 * n, next, 1, FMPL_COMM_WORLD, &ier));
        size_t got = 0;
        GIVES(FMPL_ERR_TRUNCATE, fmpl_irecv_wait_status(last, 1, FMPL_COMM_WORLD, &got, NULL, &ier));
        CHECK(got == 2 * n && holds(in, n, last));
        for (int i = 0; i < 16; i++)
            CHECK(in[n + i] == 0);
        free(out);
        free(in);
    }
}

static void refused(void) {
    int b[2] = {1, 2}, other = (me + 1) % size, flag;
    struct {
        void *buf;
        size_t size;
        int rank, mai, comm, code;
    } wrong[] = {
        {NULL, 8, other, 0, 0, FMPL_ERR_BUFFER},   {b, (size_t)-1, other, 0, 0, FMPL_ERR_SIZE},
        {b, 8, size, 0, 0, FMPL_ERR_RANK},         {b, 8, -1, 0, 0, FMPL_ERR_RANK},
        {b, 8, other, COUNT, 0, FMPL_ERR_INDEX},   {b, 8, other, -7, 0, FMPL_ERR_INDEX},
        {b, 8, other, 0, 99, FMPL_ERR_COMM},       {b, 8, other, 0, FMPL_COMM_NULL, FMPL_ERR_COMM},
        {b, 8, other, 0, 1, FMPL_ERR_COMM},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        GIVES(wrong[i].code,
              fmpl_send(wrong[i].buf, wrong[i].size, wrong[i].rank, wrong[i].mai, wrong[i].comm, &ier));
        GIVES(wrong[i].code,
              fmpl_isend(wrong[i].buf, wrong[i].size, wrong[i].rank, wrong[i].mai, wrong[i].comm, &ier));
        GIVES(wrong[i].code,
              fmpl_recv(wrong[i].buf, wrong[i].size, wrong[i].rank, wrong[i].mai, wrong[i].comm, &ier));
        GIVES(wrong[i].code,
              fmpl_irecv(wrong[i].buf, wrong[i].size, wrong[i].rank, wrong[i].mai, wrong[i].comm, &ier));
    }
    GIVES(FMPL_ERR_INDEX, fmpl_send(b, 8, other, FMPL_TAG_ANY, 0, &ier));
    GIVES(FMPL_ERR_NOTHING, fmpl_isend_wait(other, 0, 0, &ier));
    GIVES(FMPL_ERR_NOTHING, fmpl_irecv_wait(other, 0, 0, &ier));
    GIVES(FMPL_ERR_NOTHING, fmpl_isend_test(other, 0, 0, &flag, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_irecv_test(other, 0, 0, NULL, &ier));
    GIVES(FMPL_ERR_INITIALISED, fmpl_init(NULL, NULL, 3, &ier));
    GIVES(FMPL_ERR_BUFFER, fmpl_comm_rank(0, NULL, &ier));
    GIVES(FMPL_ERR_ARGUMENT, fmpl_sendbuf_set(NULL, 0, -3, &ier));
    GIVES(FMPL_ERR_ARGUMENT, fmpl_free(b, &ier));
    CHECK(fmpl_send(NULL, 8, other, 0, 0, NULL) == FMPL_ERR_BUFFER);
    /* Twice while in flight, and the first one is none the worse for it. */
    int in[2] = {0, 0};
    meet();
    OK(fmpl_isend(b, 8, other, 2, 0, &ier));
    GIVES(FMPL_ERR_BUSY, fmpl_isend(b, 4, other, 2, 0, &ier));
    GIVES(FMPL_ERR_BUSY, fmpl_send(b, 4, other, 2, 0, &ier));
    int last = (me + size - 1) % size;
    OK(fmpl_irecv(in, 8, last, 2, 0, &ier));
    GIVES(FMPL_ERR_BUSY, fmpl_irecv(in, 8, last, 2, 0, &ier));
    GIVES(FMPL_ERR_BUSY, fmpl_recv(in, 8, last, 2, 0, &ier));
    OK(fmpl_irecv_wait(last, 2, 0, &ier));
    OK(fmpl_isend_wait(other, 2, 0, &ier));
    CHECK(in[0] == 1 && in[1] == 2);
    meet();
}

int main(void) {
    int flag = 7, rank = -5;
    OK(fmpl_initialized(&flag, &ier));
    CHECK(flag == 0);
    GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_comm_rank(0, &rank, &ier));
    GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_barrier(0, &ier));
    GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_send(&flag, 4, 0, 0, 0, &ier));
    GIVES(FMPL_ERR_SIZE, fmpl_init(NULL, NULL, 0, &ier));
    GIVES(FMPL_ERR_SIZE, fmpl_init(NULL, NULL, FMPL_COUNT_MAX + 1, &ier));
    start(COUNT);
    OK(fmpl_initialized(&flag, &ier));
    CHECK(flag == 1 && fmpl_wtime() > 0);
    lengths();
    many_ahead();
    waits_beside_own();
    any_index();
    any_source();
    too_long();
    refused();
    /* What is still posted at the end is taken back. */
    int left[2];
    OK(fmpl_irecv(left, sizeof left, (me + 1) % size, 9, 0, &ier));
    OK(fmpl_irecv(left, sizeof left, (me + 1) % size, FMPL_TAG_ANY, 0, &ier));
    end("p2p");
    GIVES(FMPL_ERR_FINALIZED, fmpl_barrier(0, &ier));
    GIVES(FMPL_ERR_FINALIZED, fmpl_init(NULL, NULL, 4, &ier));
    return 0;
}
