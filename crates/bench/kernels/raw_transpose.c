/* What transpose.c asks of an MPI library, done by hand in one process: a square matrix of floats is
 * transposed block by block, so that both sides of a block stay in the first cache. Gigabytes a second, by
 * the matrix's edge. */
#include "bench.h"

/* Two blocks of 32 by 32 floats are 8 KiB. */
enum { BLOCK = 32 };

static void transpose(const float *from, float *to, size_t edge) {
    for (size_t i = 0; i < edge; i += BLOCK)
        for (size_t j = 0; j < edge; j += BLOCK)
            for (size_t k = i; k < i + BLOCK && k < edge; k++)
                for (size_t l = j; l < j + BLOCK && l < edge; l++)
                    to[k * edge + l] = from[l * edge + k];
}

static double batch(const float *from, float *to, size_t edge, int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        transpose(from, to, edge);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    return (bench_now() - start) / rounds;
}

int main(int argc, char **argv) {
    if (!bench_arguments(argc, argv)) {
        fprintf(stderr, "arguments: MILLISECONDS WHAT HOW VALUE...\n");
        return 1;
    }
    bench_library("a loop in C");
    for (int i = 0; i < bench.count; i++) {
        double times[BENCH_BATCHES];
        size_t edge = bench_value(i), bytes = edge * edge * sizeof(float);
        float *from = malloc(bytes), *to = malloc(bytes);
        int rounds, batches;
        if (!from || !to) {
            perror("raw_transpose");
            return 1;
        }
        for (size_t k = 0; k < edge * edge; k++)
            from[k] = (float)k;
        batch(from, to, edge, 1);
        bench_plan(batch(from, to, edge, 1), &rounds, &batches);
        for (int b = 0; b < batches; b++)
            times[b] = batch(from, to, edge, rounds);
        bench_point(i, 1e-9 * (double)bytes / bench_median(times, batches));
        free(from);
        free(to);
    }
    bench_end();
    return 0;
}
