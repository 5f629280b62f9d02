/* A pipeline as in the paper on KACC: each process passes chunks on to the next while they arrive; then a sum round
 * the ring; then errors. Without MPI. */
#include "check.h"

enum { CHUNK = 50000, CHUNKS = 7, ROUNDS = 20 };

/* May run in the handler of a signal. */
static void plain_add(const void *in, void *inout, size_t bytes, void *context)
{
    const double *a = in;
    double *b = inout;
    for (size_t i = 0; i < bytes / sizeof *a; i++)
        b[i] += a[i];
    ++*(volatile int *)context;
}

static void add(const void *in, void *inout, size_t bytes, void *context)
{
    plain_add(in, inout, bytes, context);
    /* An operation is no place to call from. */
    CHECK(cad_progress() == CAD_ERR_BUSY);
}

static void pipeline(void)
{
    static unsigned char data[CHUNK * CHUNKS];
    cad_t cad;
    CHECK(cad_init(&cad, 3, NULL, 0) == 0);
    CHECK(cad_query(cad) == CAD_IDLE);
    for (int i = 0; i < CHUNKS; i++) {
        void *chunk = data + i * CHUNK;
        int before = CAD_START;
        if (rank > 0) {
            int node = cad_make_recv_node(cad, chunk, CHUNK, rank - 1);
            CHECK(node >= 0 && cad_connect_node(cad, before, node) == 0);
            before = node;
        }
        if (rank + 1 < size) {
            int node = cad_make_send_node(cad, chunk, CHUNK, rank + 1);
            CHECK(node >= 0 && cad_connect_node(cad, before, node) == 0);
            before = node;
        }
        CHECK(before == CAD_START || cad_connect_node(cad, before, CAD_END) == 0);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 0)
            memset(data, round, sizeof data);
        CHECK(cad_issue(cad) == 0);
        if (round % 5) {
            CHECK(cad_wait(cad) == CAD_DONE);
        } else {
            while (cad_query(cad) == CAD_PENDING)
                CHECK(cad_progress() == 0);
        }
        CHECK(cad_query(cad) == CAD_DONE && cad_test(cad) == CAD_DONE);
        for (size_t i = 0; i < sizeof data; i += 997)
            CHECK(data[i] == round);
    }
    CHECK(cad_make_send_node(cad, data, 1, 0) == CAD_ERR_BUSY);
    CHECK(cad_free(&cad) == 0 && cad == NULL);
}

/* Where `computes`, the processes make no call while the sum is under way. */
static void sum(int anywhere, int computes)
{
    double own[100], got[100];
    volatile int called = 0;
    int before = CAD_START;
    for (int i = 0; i < 100; i++)
        own[i] = rank + i;
    cad_t cad;
    CHECK(cad_init(&cad, 4, NULL, 0) == 0);
    if (rank > 0) {
        int recv = cad_make_recv_node(cad, got, sizeof got, rank - 1);
        before = anywhere ? cad_make_reduction_node(cad, plain_add, (void *)&called, got, own, sizeof own)
                          : cad_make_calc_node(cad, add, (void *)&called, got, own, sizeof own);
        CHECK(cad_connect_node(cad, recv, before) == 0);
    }
    if (size > 1) {
        int send = cad_make_send_node(cad, own, sizeof own, (rank + 1) % size);
        CHECK(cad_connect_node(cad, before, send) == 0);
    }
    if (rank == 0 && size > 1) {
        int recv = cad_make_recv_node(cad, got, sizeof got, size - 1);
        int copy = cad_make_copy_node(cad, got, own, sizeof own);
        CHECK(cad_connect_node(cad, recv, copy) == 0);
    }
    barrier(7, size);
    CHECK(cad_issue(cad) == 0);
    while (computes && cad_query(cad) == CAD_PENDING)
        ;
    CHECK(cad_wait(cad) == CAD_DONE);
    CHECK(called == (rank > 0));
    int last = rank == 0 ? size - 1 : rank;
    for (int i = 0; i < 100; i++)
        CHECK(own[i] == (last + 1) * i + last * (last + 1) / 2.0);
    CHECK(cad_free(&cad) == 0);
}

static void errors(void)
{
    cad_t cad, none = NULL, wild = (cad_t)&rank;
    char byte = 7;
    int outside = size, self = rank;
    CHECK(cad_init(&cad, 0xffffffff, NULL, 0) == CAD_ERR_CHANNEL);
    CHECK(cad_init(&cad, 0, &outside, 1) == CAD_ERR_PEER);
    CHECK(cad_init(&cad, 5, NULL, 0) == 0);
    CHECK(cad_make_send_node(cad, &byte, 1, size) == CAD_ERR_PEER);
    CHECK(cad_make_send_node(cad, &byte, 1, self) == CAD_ERR_PEER);
    CHECK(cad_make_send_node(cad, &byte, 1, -1) == CAD_ERR_PEER);
    CHECK(cad_make_recv_node(cad, NULL, 1, 0) == CAD_ERR_MEMORY);
    CHECK(cad_make_calc_node(cad, NULL, NULL, &byte, &byte, 1) == CAD_ERR_MEMORY);
    CHECK(cad_make_reduction_node(cad, NULL, NULL, &byte, &byte, 1) == CAD_ERR_MEMORY);
    CHECK(cad_connect_node(cad, CAD_START, 0) == CAD_ERR_NODE);
    CHECK(cad_issue(none) == CAD_ERR_HANDLE && cad_wait(wild) == CAD_ERR_HANDLE);
    CHECK(cad_free(&wild) == CAD_ERR_HANDLE);
    int a = cad_make_copy_node(cad, &byte, &byte, 1), b = cad_make_copy_node(cad, &byte, &byte, 1);
    CHECK(cad_connect_node(cad, a, b) == 0 && cad_connect_node(cad, b, a) == 0);
    CHECK(cad_issue(cad) == CAD_ERR_GRAPH && cad_issue(cad) == CAD_ERR_GRAPH);
    CHECK(cad_free(&cad) == 0);
    if (size == 1)
        return;
    /* Waits for what nobody sends, until it is cancelled. */
    CHECK(cad_init(&cad, 6, NULL, 0) == 0);
    CHECK(cad_make_recv_node(cad, &byte, 1, (rank + 1) % size) == 0);
    CHECK(cad_issue(cad) == 0 && cad_test(cad) == CAD_PENDING);
    CHECK(cad_issue(cad) == CAD_ERR_BUSY && cad_free(&cad) == CAD_ERR_BUSY);
    CHECK(cad_finish() == CAD_ERR_BUSY);
    /* With "ring" the first who cancels ends it for all. */
    barrier(7, size);
    CHECK(cad_cancel(cad) == 0 && cad_wait(cad) == CAD_CANCELLED && byte == 7);
    CHECK(strcmp(cad_error_string(cad_query(cad)), "cancelled") == 0);
    CHECK(cad_free(&cad) == 0);
}

int main(int argc, char **argv)
{
    CHECK(cad_progress() == CAD_ERR_STATE);
    CHECK(cad_start(&rank, &size) == 0);
    CHECK(cad_start(NULL, NULL) == CAD_ERR_STATE);
    pipeline();
    sum(0, 0);
    sum(1, 0);
    sum(1, argc == 2 && strcmp(argv[1], "ring") == 0);
    errors();
    check_executor(argc, argv);
    CHECK(cad_finish() == 0);
    CHECK(cad_finish() == CAD_ERR_STATE);
    if (rank == 0)
        puts("ok pipeline");
    return 0;
}
