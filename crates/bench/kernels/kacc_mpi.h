/* The operations of the kernels after KACC's paper, on MPI, by HOW:
 *
 *   ibcast      MPI_Ibcast from rank 0, and MPI_Test
 *   iallreduce  MPI_Iallreduce, sum of doubles (of bytes, where there are not eight), and MPI_Test
 *   ibarrier    MPI_Ibarrier, and MPI_Test
 *   explicit    a broadcast of messages along a tree, as a program makes it itself: MPI_Irecv and MPI_Isend, and in
 *               each test MPI_Test and what it allows. The paper's tree is binary; in a chain each rank has one child. */
#ifndef KACC_MPI_H
#define KACC_MPI_H

#include "bench_mpi.h"
#include "kacc.h"

enum { CHILDREN_MOST = 2 };

static enum { IBCAST, IALLREDUCE, IBARRIER, EXPLICIT } operation;
static char *data, *sum;
static int bytes, number, children_of_each = CHILDREN_MOST;
static MPI_Request request, to_children[CHILDREN_MOST];
static int children, received;

static void kacc_fail(const char *why) {
    bench_fail(why);
}

static void kacc_tell(const void *mine, size_t size, void *all) {
    MPI_Allgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, BENCH_WORLD);
}

/* Begins a kernel that wants at least `least` ranks. */
BENCH_FUNCTION void kacc_init(int *argc, char ***argv, int least) {
    bench_init(argc, argv, least);
    kacc_rank = bench_rank;
    kacc_ranks = bench_ranks;
}

static int how(const char *word) {
    return !strncmp(bench.how, word, strlen(word));
}

/* Makes the operation for a value. */
BENCH_FUNCTION void operation_make(size_t size) {
    operation = how("explicit") ? EXPLICIT : how("iallreduce") ? IALLREDUCE : how("ibarrier") ? IBARRIER : IBCAST;
    if (operation == IBCAST && !how("ibcast"))
        bench_fail("no such operation");
    bytes = (int)size;
    number = 0;
    data = bench_memory(size);
    sum = bench_memory(size);
}

BENCH_FUNCTION void operation_free(void) {
    free(data);
    free(sum);
}

/* Another first and last byte each time, from the root; or ones, whose sum is known. */
static void operation_prepare(void) {
    number = (number + 1) % 100;
    if (operation == IBARRIER)
        return;
    if (operation != IALLREDUCE) {
        data[0] = data[bytes - 1] = (char)(kacc_rank == 0 ? number : -1);
    } else if (bytes % 8) {
        memset(data, 1, (size_t)bytes);
    } else {
        for (int i = 0; i < bytes / 8; i++)
            ((double *)data)[i] = 1;
    }
}

static void operation_check(void) {
    double *sums = (double *)sum;
    int right_now = operation == IBARRIER       ? 1
                    : operation != IALLREDUCE ? data[0] == number && data[bytes - 1] == number
                    : bytes % 8             ? sum[0] == (char)kacc_ranks && sum[bytes - 1] == (char)kacc_ranks
                                            : sums[0] == kacc_ranks && sums[bytes / 8 - 1] == kacc_ranks;
    if (!right_now)
        bench_fail("wrong data");
}

static void explicit_send(void) {
    received = 1;
    children = 0;
    for (int i = 1; i <= children_of_each; i++) {
        int child = children_of_each * kacc_rank + i;
        if (child < kacc_ranks)
            MPI_Isend(data, bytes, MPI_CHAR, child, BENCH_TAG, BENCH_WORLD, &to_children[children++]);
    }
}

static void explicit_begin(void) {
    received = 0;
    if (kacc_rank == 0)
        explicit_send();
    else
        MPI_Irecv(data, bytes, MPI_CHAR, (kacc_rank - 1) / children_of_each, BENCH_TAG, BENCH_WORLD, &request);
}

static int explicit_test(void) {
    int flag;
    if (!received) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (!flag)
            return 0;
        explicit_send();
    }
    MPI_Testall(children, to_children, &flag, MPI_STATUSES_IGNORE);
    return flag;
}

static void explicit_wait(void) {
    if (!received) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        explicit_send();
    }
    MPI_Waitall(children, to_children, MPI_STATUSES_IGNORE);
}

static void operation_begin(void) {
    if (operation == EXPLICIT)
        explicit_begin();
    else if (operation == IBCAST)
        MPI_Ibcast(data, bytes, MPI_CHAR, 0, BENCH_WORLD, &request);
    else if (operation == IBARRIER)
        MPI_Ibarrier(BENCH_WORLD, &request);
    else if (bytes % 8)
        MPI_Iallreduce(data, sum, bytes, MPI_SIGNED_CHAR, MPI_SUM, BENCH_WORLD, &request);
    else
        MPI_Iallreduce(data, sum, bytes / 8, MPI_DOUBLE, MPI_SUM, BENCH_WORLD, &request);
}

static int operation_test(void) {
    int flag;
    if (operation == EXPLICIT)
        return explicit_test();
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag;
}

static void operation_wait(void) {
    if (operation == EXPLICIT)
        explicit_wait();
    else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

#endif
