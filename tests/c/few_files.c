/* Ranks that may open only a few files, while over the network each peer takes a descriptor: everybody talks to everybody. Where there are too few, the
 * job ends within seconds and says what to do; where there are just enough, it works.
 *
 * Argument 1: how many descriptors are left to ranks 1 and above when MPI starts. The limit is a hard one, so the library can't raise it.
 */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *rank = getenv("PMI_RANK");
    int room = argc > 1 ? atoi(argv[1]) : 1000;
    if (rank && atoi(rank) > 0) {
        int open = dup(0);
        close(open);
        struct rlimit limit = {open + room, open + room};
        SAME(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    t_init(&argc, &argv);
    int *got = t_alloc(t_size * sizeof(int));
    MPI_Request *r = t_alloc(2 * t_size * sizeof(MPI_Request));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < t_size; i++) {
            OK(MPI_Irecv(&got[i], 1, MPI_INT, i, round, MPI_COMM_WORLD, &r[2 * i]));
            OK(MPI_Isend(&t_rank, 1, MPI_INT, i, round, MPI_COMM_WORLD, &r[2 * i + 1]));
        }
        OK(MPI_Waitall(2 * t_size, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < t_size; i++)
            SAME(got[i], i);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(r);
    free(got);
    if (t_rank == 0)
        printf("ok few_files\n");
    OK(MPI_Finalize());
    return 0;
}
