/* What a hang report says of ranks that wait for a collective (mpiexec -timeout): which one, and for whom.
 *
 * Argument: `each`, with 8 ranks: all but the last start the same collectives, and each waits for another one of them, for which
 * the last one is missing. `late`, with 3 ranks: the root of a gather waits for rank 1, which comes late, then for rank 2, which does not;
 * `late-blocking`: so does the root of many broadcasts, which is ahead of both by as much as there is room.
 */
#include "check.h"

enum { MOST = 16 };

/* MPI_UNWEIGHTED: gcc warns of constant addresses that are passed for arrays. */
static int *volatile unweighted;

/* A receive for which there is no send. */
static void wait_for_ever(void)
{
    int never;
    OK(MPI_Recv(&never, 1, MPI_INT, t_rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void each(void)
{
    int last = t_size - 1, one = 1, got = 0, sums[2], ones[MOST], places[MOST], all[MOST], more[MOST], yet[MOST];
    int everybody[MOST];
    MPI_Request r[6];
    CHECK(t_size <= MOST);
    for (int i = 0; i < t_size; i++) {
        ones[i] = 1;
        places[i] = everybody[i] = i;
    }
    MPI_Comm turned, star, other;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &turned)); /* its rank 0 is the last */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    /* Everybody hears from the last one. */
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, unweighted, t_rank == last ? t_size : 0, everybody,
                                      unweighted, MPI_INFO_NULL, 0, &star));
    OK(MPI_Allreduce_init(&one, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r[2]));
    if (t_rank == last)
        wait_for_ever();
    OK(MPI_Ibcast(&got, 1, MPI_INT, last, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Iallreduce(&one, &sums[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[1]));
    OK(MPI_Start(&r[2]));
    OK(MPI_Ineighbor_allgather(&one, 1, MPI_INT, &all[0], 1, MPI_INT, star, &r[3]));
    OK(MPI_Ialltoallv(ones, ones, places, MPI_INT, more, ones, places, MPI_INT, turned, &r[4]));
    OK(MPI_Igatherv(&one, 1, MPI_INT, yet, ones, places, MPI_INT, 5, MPI_COMM_WORLD, &r[5]));
    MPI_Request two[2] = {MPI_REQUEST_NULL, r[4]}, some[2] = {r[5], MPI_REQUEST_NULL};
    int count, indices[2];
    switch (t_rank) {
    case 4:
        OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
        break;
    case 5:
        OK(MPI_Waitsome(2, some, &count, indices, MPI_STATUSES_IGNORE));
        break;
    case 6: /* Nobody else is there. */
        OK(MPI_Gatherv(&one, 1, MPI_INT, yet, ones, places, MPI_INT, 6, other));
        break;
    default:
        OK(MPI_Wait(&r[t_rank], MPI_STATUS_IGNORE));
    }
}

static void late(int blocking)
{
    int one = 1, all[MOST], ones[MOST], places[MOST];
    MPI_Request r;
    for (int i = 0; i < MOST; i++) {
        ones[i] = 1;
        places[i] = i;
    }
    /* From the second one on a communicator may have a place in common memory. */
    for (int i = 0; i < 3; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 1)
        t_sleep_ms(300);
    if (t_rank == 2)
        wait_for_ever();
    if (!blocking) {
        OK(MPI_Igatherv(&one, 1, MPI_INT, all, ones, places, MPI_INT, 0, MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < 10000 && blocking; i++)
        OK(MPI_Bcast(&one, 1, MPI_INT, 0, MPI_COMM_WORLD));
    wait_for_ever();
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    unweighted = MPI_UNWEIGHTED;
    if (strcmp(argv[1], "each") == 0)
        each();
    else
        late(strcmp(argv[1], "late-blocking") == 0);
    return 0;
}
