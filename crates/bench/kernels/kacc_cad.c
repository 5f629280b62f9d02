/* KACC's experiments on CAD alone (cad.h), whose graphs are those of the paper. By WHAT as in kacc.c; HOW:
 *
 *   tree      a broadcast along a binary tree, each message whole: what the paper compares with explicit MPI
 *   pipeline  a broadcast along a chain of all ranks in chunks of 64 KiB: what it compares with LibNBC
 *
 * A test is cad_test where nodes run in calls; elsewhere it is one load, as somebody else makes the progress. */
#define _GNU_SOURCE
#include "kacc.h"

#include "kacc_chain.h"

#include <cad.h>

enum { CHUNK = 64 << 10, TELLING = 0, OPERATING = 1 };

static cad_t operation, telling;
static char *data;
static size_t bytes;
static int number, in_calls;
/* What is told; room for the largest there is. */
static char mine_told[sizeof(struct found)], *all_told;

static void kacc_fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

/* A node's number, or the end. */
static int node(int made) {
    if (made < 0)
        kacc_fail(cad_error_string(made));
    return made;
}

static void done(int code) {
    if (code != CAD_DONE)
        kacc_fail(cad_error_string(code));
}

static void *memory(size_t size) {
    void *got = malloc(size);
    if (!got)
        kacc_fail("no memory");
    memset(got, 1, size);
    return got;
}

static void make_telling(void) {
    all_told = memory((size_t)kacc_ranks * sizeof mine_told);
    done(cad_init(&telling, TELLING, NULL, 0));
    for (int i = 0; i < kacc_ranks; i++)
        if (i != kacc_rank) {
            node(cad_make_send_node(telling, mine_told, sizeof mine_told, i));
            node(cad_make_recv_node(telling, all_told + (size_t)i * sizeof mine_told, sizeof mine_told, i));
        }
}

static void kacc_tell(const void *mine, size_t size, void *all) {
    memcpy(mine_told, mine, size);
    memcpy(all_told + (size_t)kacc_rank * sizeof mine_told, mine, size);
    done(cad_issue(telling));
    done(cad_wait(telling));
    for (int i = 0; i < kacc_ranks; i++)
        memcpy((char *)all + (size_t)i * size, all_told + (size_t)i * sizeof mine_told, size);
}

static void make_tree(void) {
    int before = CAD_START;
    if (kacc_rank > 0)
        before = node(cad_make_recv_node(operation, data, bytes, (kacc_rank - 1) / 2));
    for (int child = 2 * kacc_rank + 1; child <= 2 * kacc_rank + 2 && child < kacc_ranks; child++)
        done(cad_connect_node(operation, before, node(cad_make_send_node(operation, data, bytes, child))));
}

static void make_pipeline(void) {
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t size = bytes - at < CHUNK ? bytes - at : CHUNK;
        int before = CAD_START;
        if (kacc_rank > 0)
            before = node(cad_make_recv_node(operation, data + at, size, kacc_rank - 1));
        if (kacc_rank + 1 < kacc_ranks)
            done(cad_connect_node(operation, before,
                                  node(cad_make_send_node(operation, data + at, size, kacc_rank + 1))));
    }
}

/* Another first and last byte each time, from the root. */
static void operation_prepare(void) {
    number = (number + 1) % 100;
    data[0] = data[bytes - 1] = (char)(kacc_rank == 0 ? number : -1);
}

static void operation_check(void) {
    if (data[0] != number || data[bytes - 1] != number)
        kacc_fail("wrong data");
}

static void operation_begin(void) {
    done(cad_issue(operation));
}

static int operation_test(void) {
    int state = in_calls ? cad_test(operation) : cad_query(operation);
    if (state != CAD_PENDING)
        done(state);
    return state == CAD_DONE;
}

static void operation_wait(void) {
    done(cad_wait(operation));
}

static double measured(int silent) {
    return bench_is("chain") ? chain_figure(silent) : kacc_figure();
}

int main(int argc, char **argv) {
    const char *executor;
    int silent;
    if (!bench_arguments(argc, argv))
        kacc_fail("arguments: MILLISECONDS WHAT HOW VALUE...");
    done(cad_start(&kacc_rank, &kacc_ranks));
    done(cad_executor(&executor, NULL, NULL));
    in_calls = !strcmp(executor, "inline");
    silent = strstr(bench.how, "-silent") != NULL;
    make_telling();
    kacc_what();
    product_of(bench.what);
    if (bench_is("chain"))
        chain_begin();
    if (on_processors)
        stay_on(kacc_rank % processors_shared());
    if (kacc_rank == 0)
        bench_library("CAD");
    for (int i = 0; i < bench.count; i++) {
        double figure;
        bytes = bench_value(i);
        data = memory(bytes);
        done(cad_init(&operation, OPERATING, NULL, 0));
        if (!strncmp(bench.how, "tree", 4))
            make_tree();
        else
            make_pipeline();
        figure = measured(silent);
        if (kacc_rank == 0)
            bench_point(i, figure);
        done(cad_free(&operation));
        free(data);
    }
    done(cad_free(&telling));
    free(all_told);
    if (kacc_rank == 0)
        bench_end();
    done(cad_finish());
    return 0;
}
