/* KACC's experiments on MPI: an operation (HOW, see kacc_mpi.h) behind products of matrices. By WHAT, and by bytes:
 *
 *   lost-4x4, lost-40x40   per cent of the time that was not spent on products, a test after each (kacc.h)
 *   time-4x4, time-40x40   microseconds until the slowest rank has seen that the operation is over
 *   first-..., others-...  the same of one of the ranks' processors, and of the others
 *   packets-...            per cent of the packets received that the first of these received
 *   steer-...              these with each rank on a processor of its own
 *   chain                  microseconds along a chain of three ranks (kacc_chain.h) */
#define _GNU_SOURCE
#include "kacc_mpi.h"

#include "kacc_chain.h"

int main(int argc, char **argv) {
    int chain, silent;
    kacc_init(&argc, &argv, 1);
    kacc_what();
    chain = bench_is("chain");
    silent = strstr(bench.how, "-silent") != NULL;
    product_of(bench.what);
    if (chain) {
        children_of_each = 1;
        chain_begin();
    }
    if (on_processors)
        stay_on(kacc_rank % processors_shared());
    for (int i = 0; i < bench.count; i++) {
        operation_make(bench_value(i));
        bench_figure(i, chain ? chain_figure(silent) : kacc_figure());
        operation_free();
    }
    bench_finish();
    return 0;
}
