/* A rank that waits has to sleep: rank 1 waits two seconds, in turn in a receive, a probe, a barrier
 * and a wait; the processor time it used is printed.
 *
 * Arguments: [seconds, default 2] [most per cent of a processor, no limit by default]
 */
#include "check.h"
#include <sys/resource.h>

static double used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    int seconds = argc > 1 ? atoi(argv[1]) : 2, word = 0;
    double limit = argc > 2 ? atof(argv[2]) : 0;
    static const char *const names[] = {"MPI_Recv", "MPI_Probe", "MPI_Wait", "MPI_Barrier"};
    for (int way = 0; way < 4; way++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (t_rank == 0) {
            t_sleep_ms(seconds * 1000);
            for (int r = 1; r < t_size && way < 3; r++)
                OK(MPI_Send(&word, 1, MPI_INT, r, way, MPI_COMM_WORLD));
            if (way == 3)
                OK(MPI_Barrier(MPI_COMM_WORLD));
            continue;
        }
        double cpu = used(), wall = t_seconds();
        MPI_Request r;
        if (way == 0) {
            OK(MPI_Recv(&word, 1, MPI_INT, 0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (way == 1) {
            OK(MPI_Probe(0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Recv(&word, 1, MPI_INT, 0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (way == 2) {
            OK(MPI_Irecv(&word, 1, MPI_INT, 0, way, MPI_COMM_WORLD, &r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        double share = 100 * (used() - cpu) / (t_seconds() - wall);
        if (t_rank == 1)
            fprintf(stderr, "waiting in %s: %.2f %% of a processor\n", names[way], share);
        CHECK(limit == 0 || share < limit);
    }
    return t_done("idle");
}
