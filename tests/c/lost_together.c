/* A rank dies while the others wait for it in a blocking collective, at one after the other of the places where that can be. The others learn of it,
 * in this call and in every later one, and go on without it.
 *
 * To be run with mpiexec -disable-auto-cleanup.
 *
 * Argument: which collective it does not reach.
 */
#include "check.h"
#include <signal.h>

#define LONG (1 << 20)

static int once(const char *which, MPI_Comm comm, double *out, double *in)
{
    switch (which[0]) {
    case 'b': /* barrier */
        return MPI_Barrier(comm);
    case 'r': /* reduction to the victim */
        return MPI_Reduce(out, in, 1, MPI_DOUBLE, MPI_SUM, t_size - 1, comm);
    case 'c': /* broadcast from the victim */
        return MPI_Bcast(out, LONG, MPI_DOUBLE, t_size - 1, comm);
    case 'a': /* allgather of long blocks */
        return MPI_Allgather(out, LONG / 8, MPI_DOUBLE, in, LONG / 8, MPI_DOUBLE, comm);
    default: /* of short ones */
        return MPI_Allgather(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, comm);
    }
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    const char *which = argc > 1 ? argv[1] : "barrier";
    MPI_Comm survivors;
    double *out = t_alloc(LONG * sizeof *out), *in = t_alloc((size_t)t_size * LONG * sizeof *in);
    memset(out, 0, LONG * sizeof *out);
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == t_size - 1, t_rank, &survivors));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < 20; i++) {
        OK(once(which, MPI_COMM_WORLD, out, in));
        OK(MPI_Barrier(survivors));
    }
    /* A root may be through before its data have arrived. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == t_size - 1) {
        t_sleep_ms(50);
        raise(SIGKILL);
    }
    /* Whoever only sends may be through many of them before it hears of it. */
    int code = MPI_SUCCESS;
    for (int i = 0; i < 5000 && code == MPI_SUCCESS; i++) {
        code = once(which, MPI_COMM_WORLD, out, in);
        if (i >= 20)
            t_sleep_ms(1);
    }
    SAME(t_class(code), MPI_ERR_PROC_ABORTED);
    FAILS(once(which, MPI_COMM_WORLD, out, in), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    for (int i = 0; i < 5; i++) {
        double one = 1, sum = 0;
        OK(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, survivors));
        SAME(sum, t_size - 1);
    }
    if (t_rank == 0)
        printf("ok lost_together %s\n", which);
    fflush(stdout);
    free(out);
    free(in);
    OK(MPI_Finalize());
    return 0;
}
