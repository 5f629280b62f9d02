/* MPI_THREAD_MULTIPLE: four threads in every rank, each with a communicator of its own for
 * collectives and all of them exchanging messages on one shared communicator, kept apart by tags.
 *
 * Arguments: [seconds, default 2] [threads, default 4]
 */
#include "check.h"
#include <pthread.h>

static int seconds = 2, threads = 4;
static MPI_Comm shared;

typedef struct {
    int number;
    MPI_Comm comm;
    long rounds;
} Thread;

static void messages(const Thread *me, unsigned round)
{
    enum { LARGEST = 70000 };
    static const int sizes[] = {0, 1, 48, 300, 5000, LARGEST};
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, n = sizes[round % 6], got;
    int tag = me->number * 10 + (int)(round % 7);
    unsigned char *out = t_alloc((size_t)n), *in = t_alloc((size_t)n + 1);
    unsigned who = (unsigned)(t_rank * 16 + me->number), from = (unsigned)(left * 16 + me->number);
    MPI_Request r[2];
    MPI_Status s;
    MPI_Message message;
    int flag, index;
    t_fill(out, T_PLAIN, (size_t)n, who, round);
    memset(in, 0x5A, (size_t)n + 1);
    switch (round % 5) {
    case 0:
        OK(MPI_Irecv(in, n, MPI_BYTE, left, tag, shared, &r[0]));
        OK(MPI_Isend(out, n, MPI_BYTE, right, tag, shared, &r[1]));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        break;
    case 1:
        OK(MPI_Sendrecv(out, n, MPI_BYTE, right, tag, in, n, MPI_BYTE, left, tag, shared, &s));
        break;
    case 2:
        OK(MPI_Issend(out, n, MPI_BYTE, right, tag, shared, &r[0]));
        OK(MPI_Mprobe(MPI_ANY_SOURCE, tag, shared, &message, &s));
        OK(MPI_Get_count(&s, MPI_BYTE, &got));
        SAME(got, n);
        OK(MPI_Mrecv(in, n, MPI_BYTE, &message, &s));
        SAME(s.MPI_SOURCE, left);
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        break;
    case 3:
        OK(MPI_Irecv(in, n, MPI_BYTE, MPI_ANY_SOURCE, tag, shared, &r[0]));
        OK(MPI_Isend(out, n, MPI_BYTE, right, tag, shared, &r[1]));
        for (int done = 0; done < 2;) {
            OK(MPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE));
            done += flag && index != MPI_UNDEFINED;
        }
        break;
    default:
        OK(MPI_Isend(out, n, MPI_BYTE, right, tag, shared, &r[1]));
        do {
            OK(MPI_Improbe(left, tag, shared, &flag, &message, &s));
        } while (!flag);
        OK(MPI_Imrecv(in, n, MPI_BYTE, &message, &r[0]));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    }
    VERIFY(in, T_PLAIN, (size_t)n, from, round);
    free(out);
    free(in);
}

static void collectives(const Thread *me, unsigned round)
{
    int n = round % 3 == 0 ? 3000 : 3, sum = 0, root = (int)(round % (unsigned)t_size);
    int *data = t_alloc((size_t)n * sizeof *data), mine = t_rank + (int)round;
    MPI_Request r;
    for (int i = 0; i < n; i++)
        data[i] = t_rank == root ? (int)round + i : -1;
    if (round % 2) {
        OK(MPI_Bcast(data, n, MPI_INT, root, me->comm));
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, me->comm));
    } else {
        OK(MPI_Ibcast(data, n, MPI_INT, root, me->comm, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, me->comm, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    SAME(data[n - 1], (int)round + n - 1);
    SAME(sum, t_size * (t_size - 1) / 2 + t_size * (int)round);
    if (round % 16 == 0) {
        MPI_Comm again; /* objects made and freed by several threads at once */
        MPI_Datatype type;
        OK(MPI_Comm_dup(me->comm, &again));
        OK(MPI_Type_contiguous(2, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Barrier(again));
        OK(MPI_Type_free(&type));
        OK(MPI_Comm_free(&again));
    }
    free(data);
}

/* All ranks' threads of one number have to stop after the same round: rank 0's clock decides. */
static void *work(void *argument)
{
    Thread *me = argument;
    double until = t_seconds() + seconds;
    int main_thread = 1, go = 1;
    OK(MPI_Is_thread_main(&main_thread));
    CHECK(!main_thread);
    for (unsigned round = 0; go; round++) {
        messages(me, round);
        if (round % 3 == 0)
            collectives(me, round);
        if (round % 32 == 31) {
            go = t_seconds() < until;
            OK(MPI_Bcast(&go, 1, MPI_INT, 0, me->comm));
        }
        me->rounds++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, flag, main_thread;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    SAME(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Query_thread(&flag));
    SAME(flag, MPI_THREAD_MULTIPLE);
    OK(MPI_Is_thread_main(&main_thread));
    CHECK(main_thread);
    if (argc > 1)
        seconds = atoi(argv[1]);
    if (argc > 2)
        threads = atoi(argv[2]);

    Thread all[16];
    pthread_t ids[16];
    CHECK(threads <= 16);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    for (int i = 0; i < threads; i++) {
        all[i] = (Thread){i, MPI_COMM_NULL, 0};
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &all[i].comm));
    }
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], NULL, work, &all[i]) == 0);
    long rounds = 0;
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_join(ids[i], NULL) == 0);
        CHECK(all[i].rounds > 0);
        rounds += all[i].rounds;
        OK(MPI_Comm_free(&all[i].comm));
    }
    OK(MPI_Comm_free(&shared));
    if (t_rank == 0)
        fprintf(stderr, "threads: %ld rounds by %d threads in %d s\n", rounds, threads, seconds);
    return t_done("threads");
}
