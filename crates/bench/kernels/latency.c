/* Ping-pong between ranks 0 and 1: time one way for each message size, median of batches.
 *
 *   latency SIZE...      prints "library NAME" and for each size "latency BYTES MICROSECONDS"
 *
 * A plain MPI program: whoever is compared runs this source, compiled by its own mpicc. The clock
 * is the system's, so that no library measures itself. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 25, WARMUP = 50, MOST = 2000 };

/* Aim for one batch. Shorter than a time slice, so that most batches see no other process. */
static const double BATCH_SECONDS = 0.001;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds for `rounds` messages there and back. */
static double ping_pong(int rank, char *out, char *in, int bytes, int rounds) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    return now() - start;
}

static void measure(int rank, int bytes) {
    char *out = malloc((size_t)bytes + 1), *in = malloc((size_t)bytes + 1);
    double batches[BATCHES];
    int rounds = 1;
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(out, 1, (size_t)bytes + 1);
    memset(in, 0, (size_t)bytes + 1);
    if (rank == 0) {
        double each = ping_pong(rank, out, in, bytes, WARMUP) / WARMUP;
        double fits = BATCH_SECONDS / each;
        rounds = fits < 1 ? 1 : fits > MOST ? MOST : (int)fits;
    } else {
        ping_pong(rank, out, in, bytes, WARMUP);
    }
    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int b = 0; b < BATCHES; b++)
        batches[b] = ping_pong(rank, out, in, bytes, rounds) / rounds / 2;
    qsort(batches, BATCHES, sizeof batches[0], ascending);
    if (rank == 0)
        printf("latency %d %.4f\n", bytes, 1e6 * batches[BATCHES / 2]);
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(name, &length);
    name[strcspn(name, "\n")] = 0;
    if (size != 2) {
        fprintf(stderr, "latency: wants 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("library %s\n", name);
    for (int i = 1; i < argc; i++)
        measure(rank, atoi(argv[i]));
    MPI_Finalize();
    return 0;
}
