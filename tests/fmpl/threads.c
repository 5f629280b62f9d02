/* Collectives of several threads at once, each on a communicator of its own. */
#include <mpi.h>
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 40, LONGEST = 5000 };
static const int COUNTS[] = {1, 700, 1024, 2000, LONGEST};

/* What `rank` contributes to element `i`. */
static int element(int rank, int i, int thread, int round) { return rank * 3 + i + thread * 1000 + round; }

static int sum(int i, int thread, int round) {
    int all = 0;
    for (int rank = 0; rank < size; rank++)
        all += element(rank, i, thread, round);
    return all;
}

static void collectives(int comm, int thread, int round, int count, int *b, int *work) {
    int root = round % size;
    for (int i = 0; i < count; i++)
        b[i] = element(me, i, thread, round);
    OK(fmpl_reduce(b, count, fmpl_isum, root, comm, work, &ier));
    for (int i = 0; me == root && i < count; i++)
        CHECK(b[i] == sum(i, thread, round));
    OK(fmpl_bcast(b, count * sizeof *b, root, comm, &ier));
    for (int i = 0; i < count; i++)
        CHECK(b[i] == sum(i, thread, round));
    for (int i = 0; i < count; i++)
        b[i] = element(me, i, thread, round + 1);
    OK(fmpl_allreduce(b, count, fmpl_isum, comm, work, &ier));
    for (int i = 0; i < count; i++)
        CHECK(b[i] == sum(i, thread, round + 1));
    OK(fmpl_barrier(comm, &ier));
}

static int comms[THREADS];

static void *run(void *which) {
    int thread = (int)(intptr_t)which;
    int *b = malloc(LONGEST * sizeof *b), *work = malloc(LONGEST * sizeof *work);
    CHECK(b && work);
    for (size_t k = 0; k < sizeof COUNTS / sizeof *COUNTS; k++)
        for (int round = 0; round < ROUNDS; round++)
            collectives(comms[thread], thread, round, COUNTS[k], b, work);
    free(b);
    free(work);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    start(4);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        OK(fmpl_comm_create(&comms[t], 1, &ier));
    for (int t = 1; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, run, (void *)(intptr_t)t) == 0);
    run((void *)0);
    for (int t = 1; t < THREADS; t++)
        CHECK(pthread_join(threads[t], NULL) == 0);
    end("threads");
    MPI_Finalize();
    return 0;
}
