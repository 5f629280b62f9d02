/* FMPL and MPI in one process: started in either order, a wait in one makes progress for the other, threads, and who ends
 * what. The argument says in which order: mpi-first, fmpl-first, or fmpl-last (MPI is finalized before FMPL). */
#include <mpi.h>
#include "check.h"
#include <pthread.h>

/* Rank 0 spools and waits in MPI; rank 1 receives by FMPL, then comes to MPI. */
static void spooled_goes_in_an_mpi_wait(void) {
    int b = 42;
    if (me == 0) {
        OK(fmpl_sendbuf_set(NULL, FMPL_GROWS, 0, &ier));
        OK(fmpl_send(&b, sizeof b, 1, 0, 0, &ier));
    } else if (me == 1) {
        b = 0;
        sleep_ms(30); /* rank 0 sleeps by then */
        OK(fmpl_recv(&b, sizeof b, 0, 0, 0, &ier));
        CHECK(b == 42);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 has a long MPI message under way and waits in FMPL; rank 1 takes the message, then comes to FMPL. */
static void mpi_goes_in_an_fmpl_wait(void) {
    enum { N = 1 << 20 };
    int *b = calloc(N, sizeof *b), x = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (me == 0) {
        for (int i = 0; i < N; i++)
            b[i] = i;
        MPI_Isend(b, N, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
        OK(fmpl_recv(&x, sizeof x, 1, 1, 0, &ier));
        CHECK(x == 7);
    } else if (me == 1) {
        sleep_ms(30);
        MPI_Recv(b, N, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(b[N - 1] == N - 1);
        x = 7;
        OK(fmpl_send(&x, sizeof x, 0, 1, 0, &ier));
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(b);
    meet();
}

static void both_at_once(void) {
    int next = (me + 1) % size, last = (me + size - 1) % size;
    for (int i = 0; i < 300; i++) {
        int a = -1, b = -1, out = me * 1000 + i;
        MPI_Request requests[2];
        MPI_Irecv(&a, 1, MPI_INT, last, i, MPI_COMM_WORLD, &requests[0]);
        OK(fmpl_irecv(&b, sizeof b, last, i % 4, 0, &ier));
        MPI_Isend(&out, 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[1]);
        OK(fmpl_isend(&out, sizeof out, next, i % 4, 0, &ier));
        if (i % 2) {
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            OK(fmpl_irecv_wait(last, i % 4, 0, &ier));
        } else {
            OK(fmpl_irecv_wait(last, i % 4, 0, &ier));
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        OK(fmpl_isend_wait(next, i % 4, 0, &ier));
        CHECK(a == last * 1000 + i && b == a);
    }
}

static void *thread(void *which) {
    int t = (int)(intptr_t)which, next = (me + 1) % size, last = (me + size - 1) % size;
    for (int i = 0; i < 300; i++) {
        int in = -1, out = me + i;
        if (t < 2) {
            OK(fmpl_irecv(&in, sizeof in, last, 8 + t, 0, &ier));
            OK(fmpl_send(&out, sizeof out, next, 8 + t, 0, &ier));
            OK(fmpl_irecv_wait(last, 8 + t, 0, &ier));
        } else {
            MPI_Sendrecv(&out, 1, MPI_INT, next, t, &in, 1, MPI_INT, last, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        CHECK(in == last + i);
    }
    return NULL;
}

static void threads(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, thread, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

int main(int argc, char **argv) {
    const char *order = argc > 1 ? argv[1] : "mpi-first";
    int provided, flag;
    if (!strcmp(order, "mpi-first")) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
        start(16);
    } else {
        start(16);
        int next = (me + 1) % size, last = (me + size - 1) % size, in = -1, out = me;
        for (int i = 0; i < 50; i++) {
            OK(fmpl_irecv(&in, sizeof in, last, 1, 0, &ier));
            OK(fmpl_send(&out, sizeof out, next, 1, 0, &ier));
            OK(fmpl_irecv_wait(last, 1, 0, &ier));
            CHECK(in == last);
        }
        /* Posted by the only thread that may call, it ends when several may. */
        OK(fmpl_irecv(&in, sizeof in, last, 1, 0, &ier));
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
        out = me + 1000;
        OK(fmpl_send(&out, sizeof out, next, 1, 0, &ier));
        OK(fmpl_irecv_wait(last, 1, 0, &ier));
        CHECK(in == last + 1000);
    }
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(rank == me && provided == MPI_THREAD_MULTIPLE);
    if (size > 1) {
        spooled_goes_in_an_mpi_wait();
        mpi_goes_in_an_fmpl_wait();
    }
    both_at_once();
    threads();
    if (!strcmp(order, "fmpl-last")) {
        MPI_Finalize();
        GIVES(FMPL_ERR_FINALIZED, fmpl_barrier(0, &ier));
        GIVES(FMPL_ERR_FINALIZED, fmpl_finalize(&ier));
    } else {
        OK(fmpl_finalize(&ier));
        MPI_Finalized(&flag);
        CHECK(!flag);
        GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_barrier(0, &ier));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
    }
    if (me == 0)
        printf("ok mixed\n");
    return 0;
}
