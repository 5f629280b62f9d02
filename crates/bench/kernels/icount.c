/* Calls one MPI function again and again, for counting its instructions: `icount CALL ROUNDS`.
 *
 * Rank 0 is counted, only inside `counted_CALL`, which does nothing but call the function BATCH
 * times. What a call would wait for has happened before: messages are sent, and time is given to
 * arrive, outside those functions. Rank 1 stays out of MPI meanwhile: neither does it sleep there and
 * has to be woken, nor do its messages come while rank 0 still makes progress. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long something has to arrive, and how long rank 1 stays out of MPI: less where many short sends are counted. */
enum { ARRIVAL_MICROSECONDS = 20000, SENDING_MICROSECONDS = 5000 };
enum { BATCH = 16, TAG = 7, GO = 8, LONG = 65536 };

static char data[BATCH][64];
static char long_data[BATCH][LONG];
static MPI_Request requests[BATCH];
static MPI_Status status;
static MPI_Datatype vector;

#define COUNTED __attribute__((noinline, noclone, used)) void

COUNTED counted_isend(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Isend(data[i], 4, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[i]);
}

COUNTED counted_isend_long(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Isend(long_data[i], LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[i]);
}

COUNTED counted_irecv(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Irecv(data[i], 4, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[i]);
}

COUNTED counted_wait(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Wait(&requests[i], &status);
}

COUNTED counted_send(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Send(data[i], 4, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
}

COUNTED counted_recv(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Recv(data[i], 4, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &status);
}

/* A vector of two blocks, with a gap between them, as a program makes one for a message. */
static void make(MPI_Datatype *type) {
    MPI_Type_vector(2, 2, 3, MPI_INT, type);
    MPI_Type_commit(type);
}

COUNTED counted_type(void) {
    for (int i = 0; i < BATCH; i++) {
        MPI_Datatype type;
        make(&type);
        MPI_Type_free(&type);
    }
}

COUNTED counted_send_type(void) {
    for (int i = 0; i < BATCH; i++)
        MPI_Send(data[i], 1, vector, 1, TAG, MPI_COMM_WORLD);
}

/* Lets the other rank go on, and waits until it has. */
static void go(int other) {
    MPI_Sendrecv(NULL, 0, MPI_CHAR, other, GO, NULL, 0, MPI_CHAR, other, GO, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Waits until all requests are complete, but leaves them. */
static void complete_all(void) {
    for (int i = 0, flag; i < BATCH; i += flag)
        MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
}

/* Has messages that are there looked at: they become unexpected ones. */
static void take_in(void) {
    for (int i = 0, flag; i < BATCH; i++)
        MPI_Iprobe(1, TAG + BATCH, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void counted_side(const char *call) {
    if (!strcmp(call, "isend_long")) {
        counted_isend_long();
        MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
        go(1);
    } else if (!strcmp(call, "irecv_unexpected")) {
        go(1);
        usleep(2 * ARRIVAL_MICROSECONDS);
        take_in();
        counted_irecv();
        MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
    } else if (!strcmp(call, "isend") || !strcmp(call, "wait_send")) {
        counted_isend();
        complete_all();
        if (!strcmp(call, "isend"))
            MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
        else
            counted_wait();
        go(1);
    } else if (!strcmp(call, "send")) {
        counted_send();
        go(1);
    } else if (!strcmp(call, "type")) {
        counted_type();
    } else if (!strcmp(call, "send_type")) {
        make(&vector);
        counted_send_type();
        MPI_Type_free(&vector);
        go(1);
    } else if (!strcmp(call, "irecv") || !strcmp(call, "wait_recv")) {
        counted_irecv();
        go(1);
        complete_all();
        if (!strcmp(call, "irecv"))
            MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
        else
            counted_wait();
    } else {
        go(1);
        usleep(2 * ARRIVAL_MICROSECONDS);
        counted_recv();
    }
}

static void other_side(const char *call) {
    int is_long = !strcmp(call, "isend_long");
    int is_many = !strcmp(call, "isend") || !strcmp(call, "send");
    int receives =
        is_long || is_many || !strcmp(call, "wait_send") || !strcmp(call, "send_type");
    if (!strcmp(call, "type"))
        return;
    if (!receives)
        go(0);
    usleep(is_many ? SENDING_MICROSECONDS : ARRIVAL_MICROSECONDS);
    for (int i = 0; i < BATCH; i++)
        if (receives)
            MPI_Recv(is_long ? long_data[i] : data[i], is_long ? LONG : sizeof data[i], MPI_CHAR, 0,
                     TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(data[i], 4, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    if (receives)
        go(0);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; argc == 3 && i < atoi(argv[2]); i++)
        if (rank == 0)
            counted_side(argv[1]);
        else
            other_side(argv[1]);
    MPI_Finalize();
    return 0;
}
