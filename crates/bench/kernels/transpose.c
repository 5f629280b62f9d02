/* A square matrix of floats is sent by columns (a vector of vectors) and received as it comes, which
 * transposes it: gigabytes a second, by the matrix's edge.
 *
 *   pair   from rank 0 to rank 1 and back
 *   self   from a rank to itself */
#include "bench_mpi.h"

static float *out, *in;
static int edge;
static MPI_Datatype columns;

static double pair(int rounds) {
    double start = bench_now();
    int elements = edge * edge;
    for (int i = 0; i < rounds; i++) {
        if (bench_rank == 0) {
            MPI_Send(out, 1, columns, 1, BENCH_TAG, BENCH_WORLD);
            MPI_Recv(in, elements, MPI_FLOAT, 1, BENCH_TAG, BENCH_WORLD, MPI_STATUS_IGNORE);
        } else if (bench_rank == 1) {
            MPI_Recv(in, elements, MPI_FLOAT, 0, BENCH_TAG, BENCH_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, 1, columns, 0, BENCH_TAG, BENCH_WORLD);
        }
    }
    return bench_rank == 0 ? bench_now() - start : 0;
}

static double self(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds && bench_rank == 0; i++)
        MPI_Sendrecv(out, 1, columns, 0, BENCH_TAG, in, edge * edge, MPI_FLOAT, 0, BENCH_TAG,
                     MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return bench_rank == 0 ? bench_now() - start : 0;
}

static void check(void) {
    for (int i = 0; i < edge; i++)
        for (int j = 0; j < edge; j++)
            if (in[i * edge + j] != (float)(j * edge + i))
                bench_fail("the matrix is not transposed");
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv, 1);
    if (bench_is("pair") && bench_ranks < 2)
        bench_fail("too few ranks");
    for (int i = 0; i < bench.count; i++) {
        MPI_Datatype column;
        double messages = bench_is("pair") ? 2 : 1;
        edge = (int)bench_value(i);
        size_t bytes = (size_t)edge * (size_t)edge * sizeof(float);
        out = bench_memory(bytes);
        in = bench_memory(bytes);
        for (int k = 0; k < edge * edge; k++)
            out[k] = (float)k;
        MPI_Type_vector(edge, 1, edge, MPI_FLOAT, &column);
        MPI_Type_create_hvector(edge, 1, sizeof(float), column, &columns);
        MPI_Type_commit(&columns);
        bench_figure(i, 1e-9 * messages * (double)bytes / bench_measure(bench_is("pair") ? pair : self));
        if (bench_rank < messages)
            check();
        MPI_Type_free(&columns);
        MPI_Type_free(&column);
        free(out);
        free(in);
    }
    bench_finish();
    return 0;
}
