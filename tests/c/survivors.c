/* The root of a stream of broadcasts is killed at any moment (mpiexec -disable-auto-cleanup), and the others go on in a communicator
 * of their own; again and again, until two are left. What came in is right to the byte, what did not fails with
 * MPI_ERR_PROC_ABORTED, and the new communicator serves all of its ranks, however the old one has failed at each.
 *
 * The last rank dies first, so rank 0 survives. Which messages get through is chance: the moments come from a seed.
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { AT_ONCE = 40, AFTERWARDS = 6, LONGEST = 64 << 10, GUARD = 64, LATEST_US = 20000 };

static unsigned char *buffers[AT_ONCE];
static MPI_Request requests[AT_ONCE];

static void *die(void *microseconds)
{
    usleep(*(useconds_t *)microseconds);
    kill(getpid(), SIGKILL);
    return NULL;
}

static unsigned char byte(unsigned message, unsigned at)
{
    unsigned x = message * 0x9E3779B1u ^ at * 0x85EBCA6Bu;
    return (unsigned char)(x >> 17 ^ x >> 9);
}

/* 0 bytes to the longest, half of them short. */
static int length(unsigned message)
{
    unsigned x = message * 0x9E3779B1u >> 8;
    return (int)(x % (x & 1 << 20 ? LONGEST + 1 : 2048));
}

/* The part of a window's broadcasts; how many failed. `turn`: each rank gives some, else the last gives all. */
static int window(MPI_Comm comm, unsigned first, int turn)
{
    int me, n, failed = 0;
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &n));
    for (int i = 0; i < AT_ONCE; i++) {
        unsigned message = first + (unsigned)i;
        int root = turn ? i % n : n - 1, bytes = length(message);
        memset(buffers[i], 0xEE, LONGEST + 2 * GUARD);
        for (int at = 0; me == root && at < bytes; at++)
            buffers[i][GUARD + at] = byte(message, (unsigned)at);
        int code = MPI_Ibcast(buffers[i] + GUARD, bytes, MPI_BYTE, root, comm, &requests[i]);
        if (code != MPI_SUCCESS) {
            FAILS(code, MPI_ERR_PROC_ABORTED);
            requests[i] = MPI_REQUEST_NULL;
            failed++;
        }
    }
    for (int i = 0; i < AT_ONCE; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        unsigned message = first + (unsigned)i;
        int bytes = length(message), code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        for (int at = 0; at < GUARD; at++) {
            SAME(buffers[i][at], 0xEE);
            SAME(buffers[i][GUARD + bytes + at], 0xEE);
        }
        if (code != MPI_SUCCESS) {
            FAILS(code, MPI_ERR_PROC_ABORTED);
            failed++;
            continue;
        }
        for (int at = 0; at < bytes; at++)
            SAME(buffers[i][GUARD + at], byte(message, (unsigned)at));
    }
    return failed;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    for (int i = 0; i < AT_ONCE; i++)
        buffers[i] = t_alloc(LONGEST + 2 * GUARD);
    MPI_Comm all;
    MPI_Group world;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &all));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int left = t_size; left > 2; left--) {
        OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
        int victim = left - 1, failed = 0;
        useconds_t when;
        /* Nobody is in an earlier call that needs it. */
        if (t_rank < victim)
            OK(MPI_Send(NULL, 0, MPI_BYTE, victim, left, all));
        if (t_rank == victim) {
            for (int i = 0; i < victim; i++)
                OK(MPI_Recv(NULL, 0, MPI_BYTE, i, left, all, MPI_STATUS_IGNORE));
            srand(seed + (unsigned)left);
            when = (useconds_t)(rand() % LATEST_US);
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, die, &when) == 0);
        }
        for (int i = 0; failed == 0; i++)
            failed = window(all, (unsigned)(left * 1000 + i * AT_ONCE), 0);

        MPI_Group others;
        MPI_Comm next;
        int range[1][3] = {{0, victim - 1, 1}};
        OK(MPI_Group_range_incl(world, 1, range, &others));
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, others, left, &next));
        OK(MPI_Group_free(&others));
        OK(MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN));
        for (int i = 0; i < AFTERWARDS; i++)
            SAME(window(next, (unsigned)(left * 1000 + 500 + i * AT_ONCE), 1), 0);
        OK(MPI_Comm_free(&all));
        all = next;
    }
    OK(MPI_Comm_free(&all));
    OK(MPI_Group_free(&world));
    for (int i = 0; i < AT_ONCE; i++)
        free(buffers[i]);
    if (t_rank == 0)
        printf("ok survivors\n");
    OK(MPI_Finalize());
    return 0;
}
