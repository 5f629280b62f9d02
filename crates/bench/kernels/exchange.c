/* Time of an exchange in a ring: all ranks send and receive at once, so that messages go both ways, by bytes
 * of a message:
 *
 *   sendrecv     MPI_Sendrecv, to the right and from the left
 *   posted       the same as MPI_Irecv, MPI_Isend and MPI_Waitall
 *   neighbours   to both sides and from both, all posted, then MPI_Waitall, as programs do that share the
 *                borders of a grid
 *
 * Of two ranks each is on both sides of the other. */
#include "bench_mpi.h"

static char *to_left, *to_right, *from_left, *from_right;
static int bytes, left, right;

static double sendrecv(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++)
        MPI_Sendrecv(to_right, bytes, MPI_CHAR, right, BENCH_TAG, from_left, bytes, MPI_CHAR, left, BENCH_TAG,
                     BENCH_WORLD, MPI_STATUS_IGNORE);
    return bench_now() - start;
}

static double posted(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[2];
        MPI_Irecv(from_left, bytes, MPI_CHAR, left, BENCH_TAG, BENCH_WORLD, &requests[0]);
        MPI_Isend(to_right, bytes, MPI_CHAR, right, BENCH_TAG, BENCH_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - start;
}

static double neighbours(int rounds) {
    double start = bench_now();
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[4];
        MPI_Irecv(from_left, bytes, MPI_CHAR, left, BENCH_TAG, BENCH_WORLD, &requests[0]);
        MPI_Irecv(from_right, bytes, MPI_CHAR, right, BENCH_TAG, BENCH_WORLD, &requests[1]);
        MPI_Isend(to_right, bytes, MPI_CHAR, right, BENCH_TAG, BENCH_WORLD, &requests[2]);
        MPI_Isend(to_left, bytes, MPI_CHAR, left, BENCH_TAG, BENCH_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - start;
}

int main(int argc, char **argv) {
    double (*exchange)(int rounds);
    bench_init(&argc, &argv, 2);
    left = (bench_rank + bench_ranks - 1) % bench_ranks;
    right = (bench_rank + 1) % bench_ranks;
    exchange = bench_is("sendrecv") ? sendrecv : bench_is("posted") ? posted : neighbours;
    for (int i = 0; i < bench.count; i++) {
        size_t size = bench_value(i);
        bytes = (int)size;
        to_left = bench_memory(size);
        to_right = bench_memory(size);
        from_left = bench_memory(size);
        from_right = bench_memory(size);
        bench_figure(i, 1e6 * bench_measure(exchange));
        free(to_left);
        free(to_right);
        free(from_left);
        free(from_right);
    }
    bench_finish();
    return 0;
}
