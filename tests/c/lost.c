/* A rank is killed while the others go on (mpiexec -disable-auto-cleanup): what needs it ends with
 * MPI_ERR_PROC_ABORTED, pending or started later; what doesn't need it works.
 *
 * Rank 1 dies. Everybody else has, at that moment, a receive from it, a synchronous send to it and two
 * collectives of all ranks under way, one of them persistent.
 */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { VICTIM = 1, BIG = 1 << 20 };

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));

    MPI_Comm survivors;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == VICTIM, t_rank, &survivors));
    OK(MPI_Comm_set_errhandler(survivors, MPI_ERRORS_RETURN));
    int part = 1, total = 0;
    MPI_Request kept[3]; /* persistent: under way, not started, without the victim */
    OK(MPI_Allreduce_init(&part, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[0]));
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &kept[1]));
    OK(MPI_Allreduce_init(&part, &total, 1, MPI_INT, MPI_SUM, survivors, MPI_INFO_NULL, &kept[2]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == VICTIM) {
        /* The others shall be waiting by then. */
        usleep(300000);
        kill(getpid(), SIGKILL);
    }

    char small, *large = t_alloc(BIG), *other = t_alloc(BIG);
    memset(large, 7, BIG);
    int one = 1, sum = 0, flag = 0;
    MPI_Request pending[5];
    MPI_Status s;
    OK(MPI_Irecv(&small, 1, MPI_CHAR, VICTIM, 1, MPI_COMM_WORLD, &pending[0]));
    OK(MPI_Issend(&one, 1, MPI_INT, VICTIM, 2, MPI_COMM_WORLD, &pending[1]));
    OK(MPI_Isend(large, BIG, MPI_CHAR, VICTIM, 3, MPI_COMM_WORLD, &pending[2]));
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &pending[3]));
    OK(MPI_Start(&kept[0]));
    /* Either half of a send-receive can be the one that fails. */
    OK(MPI_Isendrecv(large, BIG, MPI_CHAR, VICTIM, 4, NULL, 0, MPI_CHAR, MPI_PROC_NULL, 4, MPI_COMM_WORLD,
                     &pending[4]));

    /* Traffic among the survivors goes on meanwhile. */
    int me, n;
    OK(MPI_Comm_rank(survivors, &me));
    OK(MPI_Comm_size(survivors, &n));
    for (int i = 0; i < 50; i++) {
        OK(MPI_Sendrecv(large, BIG, MPI_CHAR, (me + 1) % n, i, other, BIG, MPI_CHAR,
                        (me + n - 1) % n, i, survivors, &s));
        SAME(other[BIG - 1], 7);
    }

    for (int i = 0; i < 5; i++)
        FAILS(MPI_Wait(&pending[i], &s), MPI_ERR_PROC_ABORTED);

    /* A persistent collective stays a request, which can be freed but not started. */
    FAILS(MPI_Wait(&kept[0], &s), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Start(&kept[0]), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Start(&kept[1]), MPI_ERR_PROC_ABORTED);
    OK(MPI_Waitall(2, kept, MPI_STATUSES_IGNORE));
    OK(MPI_Start(&kept[2]));
    OK(MPI_Wait(&kept[2], &s));
    SAME(total, n);
    for (int i = 0; i < 3; i++)
        OK(MPI_Request_free(&kept[i]));

    /* Later calls. */
    FAILS(MPI_Recv(&small, 1, MPI_CHAR, VICTIM, 1, MPI_COMM_WORLD, &s), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Send(&one, 1, MPI_INT, VICTIM, 1, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Ssend(large, BIG, MPI_CHAR, VICTIM, 1, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Sendrecv(&one, 1, MPI_INT, VICTIM, 6, &small, 1, MPI_CHAR, MPI_PROC_NULL, 6, MPI_COMM_WORLD, &s),
          MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Sendrecv(&one, 1, MPI_INT, MPI_PROC_NULL, 6, &small, 1, MPI_CHAR, VICTIM, 6, MPI_COMM_WORLD, &s),
          MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Sendrecv_replace(large, BIG, MPI_CHAR, VICTIM, 6, MPI_PROC_NULL, 6, MPI_COMM_WORLD, &s),
          MPI_ERR_PROC_ABORTED);
    if (n > 1) {
        /* The living half works although the other one failed. */
        int next = (me + 1) % n, before = (me + n - 1) % n, got = -1;
        MPI_Request r;
        OK(MPI_Isend(&me, 1, MPI_INT, next + (next >= VICTIM), 8, MPI_COMM_WORLD, &r));
        FAILS(MPI_Sendrecv(large, BIG, MPI_CHAR, VICTIM, 8, &got, 1, MPI_INT, before + (before >= VICTIM), 8,
                           MPI_COMM_WORLD, &s), MPI_ERR_PROC_ABORTED);
        SAME(got, before);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    FAILS(MPI_Probe(VICTIM, 9, MPI_COMM_WORLD, &s), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Iprobe(VICTIM, 9, MPI_COMM_WORLD, &flag, &s), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);

    /* What doesn't need it. */
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, survivors));
    SAME(sum, n);
    if (n > 1) {
        /* From anybody: others may send. */
        MPI_Request any;
        int got = -1;
        OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &any));
        int to;
        OK(MPI_Barrier(survivors));
        to = (me + 1) % n;
        OK(MPI_Send(&me, 1, MPI_INT, to + (to >= VICTIM), 5, MPI_COMM_WORLD));
        OK(MPI_Wait(&any, &s));
        SAME(got, (me + n - 1) % n);
    }

    /* A communicator of those that are left can still be made, and lead to others. */
    MPI_Group all, left;
    MPI_Comm made = MPI_COMM_NULL, again;
    int victim = VICTIM;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    FAILS(MPI_Comm_create_group(MPI_COMM_WORLD, all, 7, &made), MPI_ERR_PROC_ABORTED);
    OK(MPI_Group_excl(all, 1, &victim, &left));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, left, 7, &made));
    OK(MPI_Comm_dup(made, &again));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made));
    SAME(sum, n);
    OK(MPI_Allgather(&me, 1, MPI_INT, large, 1, MPI_INT, again));
    for (int i = 0; i < n; i++)
        SAME(((int *)large)[i], i);
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&left));
    OK(MPI_Group_free(&all));
    OK(MPI_Barrier(survivors));
    /* One that has finalized in order has done its part in what others do later. What it sent is there, what it did not send can't come. */
    for (int i = 1; me == 0 && i < n; i++)
        OK(MPI_Send(&n, 1, MPI_INT, i, 30, survivors));
    if (me > 0)
        usleep(300000);
    int root = me;
    OK(MPI_Bcast(&root, 1, MPI_INT, 0, survivors));
    SAME(root, 0);
    if (me > 0) {
        int got = -1;
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 30, survivors, &s));
        SAME(got, n);
        FAILS(MPI_Recv(&got, 1, MPI_INT, 0, 31, survivors, &s), MPI_ERR_PROC_ABORTED);
        /* The last speaks for all: who fails here does not change the job's code, which is the victim's. */
        if (me < n - 1)
            OK(MPI_Send(&me, 1, MPI_INT, n - 1, 32, survivors));
        for (int i = 1; me == n - 1 && i < n - 1; i++)
            OK(MPI_Recv(&got, 1, MPI_INT, i, 32, survivors, &s));
    }
    int speaks = me == n - 1;
    OK(MPI_Comm_free(&survivors));
    free(large);
    free(other);
    if (speaks)
        printf("ok lost\n");
    OK(MPI_Finalize());
    return 0;
}
