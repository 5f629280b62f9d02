/* KACC's experiments on MPI: an operation (HOW, see kacc_mpi.h) behind products of matrices. By WHAT, and by bytes:
 *
 *   lost-4x4, lost-40x40   per cent of the time that was not spent on products, a test after each (kacc.h)
 *   time-4x4, time-40x40   microseconds until the slowest rank has seen that the operation is over
 *   chain                  microseconds along a chain of three ranks (kacc_chain.h) */
#define _GNU_SOURCE
#include "kacc_mpi.h"

#include "kacc_chain.h"

int main(int argc, char **argv) {
    int chain, lost, silent;
    kacc_init(&argc, &argv, 1);
    chain = bench_is("chain");
    lost = !strncmp(bench.what, "lost-", 5);
    silent = strstr(bench.how, "-silent") != NULL;
    product_of(bench.what);
    if (chain) {
        children_of_each = 1;
        chain_begin();
    }
    for (int i = 0; i < bench.count; i++) {
        operation_make(bench_value(i));
        bench_figure(i, chain ? chain_figure(silent) : kacc_figure(lost));
        operation_free();
    }
    bench_finish();
    return 0;
}
