/* MPI_THREAD_MULTIPLE in ranks of which one thread calls at first, to which the library's lock leans: messages of all
 * lengths go round, on communicators that come and go. Then other threads come, while the first goes on, while it
 * sleeps in a receive that only they end, and when it is elsewhere. With the argument "refused" the kernel refuses the barriers between
 * threads and processes that the library was granted when it began.
 */
#include "check.h"
#include "refuse.h"
#include <pthread.h>

enum { LATE = 3, WAKE = 500, LONGEST = 300000 };

/* A message goes round the ranks, from rank 0 to rank 0: `round` and `tag` say what is in it. */
static void go_round(MPI_Comm comm, int tag, unsigned round, int any)
{
    static const int sizes[] = {8, 1, 48, 49, 1000, 5000, 0, 70000, LONGEST};
    int n = sizes[round % 9], right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size;
    unsigned char *out = t_alloc((size_t)n + 1), *in = t_alloc((size_t)n + 1);
    MPI_Status s;
    MPI_Request r;
    t_fill(out, T_PLAIN, (size_t)n, (unsigned)tag, round);
    memset(in, 0x5A, (size_t)n + 1);
    if (t_rank == 0) {
        /* Alone it is sent to itself, so somebody has to be there first. */
        OK(MPI_Irecv(in, n, MPI_BYTE, left, tag, comm, &r));
        OK(MPI_Send(out, n, MPI_BYTE, right, tag, comm));
        OK(MPI_Wait(&r, &s));
    } else {
        OK(MPI_Recv(in, n, MPI_BYTE, left, any ? MPI_ANY_TAG : tag, comm, &s));
        OK(MPI_Send(in, n, MPI_BYTE, right, tag, comm));
    }
    SAME(s.MPI_TAG, tag);
    SAME(s.MPI_SOURCE, left);
    CHECK(memcmp(in, out, (size_t)n) == 0);
    SAME(in[n], 0x5A);
    free(out);
    free(in);
}

/* Messages to and fro, which both wait in MPI_Recv. */
static void to_and_fro(MPI_Comm comm, int tag, unsigned rounds, int n)
{
    unsigned char *out = t_alloc((size_t)n), *in = t_alloc((size_t)n);
    int peer = t_rank ^ 1;
    for (unsigned round = 0; peer < t_size && round < rounds; round++) {
        t_fill(out, T_PLAIN, (size_t)n, (unsigned)tag, round);
        if (t_rank < peer)
            OK(MPI_Send(out, n, MPI_BYTE, peer, tag, comm));
        OK(MPI_Recv(in, n, MPI_BYTE, peer, tag, comm, MPI_STATUS_IGNORE));
        if (t_rank > peer)
            OK(MPI_Send(out, n, MPI_BYTE, peer, tag, comm));
        CHECK(memcmp(in, out, (size_t)n) == 0);
    }
    free(out);
    free(in);
}

static void alone(void)
{
    for (unsigned again = 0; again < 3; again++) {
        MPI_Comm other;
        to_and_fro(MPI_COMM_WORLD, 1, 300, 8);
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        for (unsigned round = 0; round < 27; round++) {
            go_round(MPI_COMM_WORLD, 2, round, 1);
            go_round(other, 3, round, 0);
        }
        /* Another one may get its handle, and is not it. */
        OK(MPI_Comm_free(&other));
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        for (unsigned round = 0; round < 9; round++)
            go_round(other, 4, round, 0);
        OK(MPI_Comm_free(&other));
    }
}

static void *come_late(void *number)
{
    int n = (int)(size_t)number;
    struct timespec a_while = {0, 300000L * n};
    nanosleep(&a_while, NULL);
    to_and_fro(MPI_COMM_WORLD, 10 + n, 200, n * n * 90 + 1);
    for (unsigned round = 0; round < 18; round++)
        go_round(MPI_COMM_WORLD, 20 + n, round, 0);
    /* What the first thread sleeps for. */
    if (n == LATE)
        OK(MPI_Send(&n, 1, MPI_INT, (t_rank + 1) % t_size, WAKE, MPI_COMM_WORLD));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, got = -1;
    pthread_t late[LATE + 1];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    SAME(provided, MPI_THREAD_MULTIPLE);
    if (argc > 1 && strcmp(argv[1], "refused") == 0)
        refuse_calls(SYS_membarrier, -1u);
    alone();
    for (int n = 1; n <= LATE; n++)
        CHECK(pthread_create(&late[n], NULL, come_late, (void *)(size_t)n) == 0);
    to_and_fro(MPI_COMM_WORLD, 1, 1000, 100);
    OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, WAKE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, LATE);
    for (int n = 1; n <= LATE; n++)
        CHECK(pthread_join(late[n], NULL) == 0);
    alone();
    return t_done("threads_late");
}
