/* Many non-blocking collectives under way at once while the process can have few descriptors: whoever runs them waits for
 * what earlier ones give back. None fails. Argument "soft": the process could have more if it asked for them, and
 * there are many communicators.
 */
#include "coll.h"
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 300, N = 2000, SPARE = 40, COMMS = 60 };

/* One more than the highest descriptor in use. */
static int highest(void)
{
    int most = 0;
    for (int fd = 0; fd < 4096; fd++)
        if (dup2(fd, fd) == fd)
            most = fd + 1;
    return most;
}

/* Each with a collective under way. */
static void communicators(void)
{
    MPI_Comm comms[COMMS];
    MPI_Request r[COMMS];
    int sums[COMMS];
    for (int i = 0; i < COMMS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        OK(MPI_Iallreduce(&t_rank, &sums[i], 1, MPI_INT, MPI_SUM, comms[i], &r[i]));
    }
    OK(MPI_Waitall(COMMS, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COMMS; i++) {
        SAME(sums[i], t_size * (t_size - 1) / 2);
        OK(MPI_Comm_free(&comms[i]));
    }
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    int first = 1, *in = ints((size_t)MANY * N), *out = ints((size_t)MANY * N);
    MPI_Request *r = t_alloc(MANY * sizeof *r);
    /* The same call again and again; afterwards the connections of the communicator are there. */
    for (int i = 0; i < 100; i++) {
        OK(MPI_Iallreduce(&t_rank, &first, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[0]));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* There is no way back from a lower hard limit, nor need for one. */
    int soft = argc > 1 && strcmp(argv[1], "soft") == 0;
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    rlim_t few = (rlim_t)(highest() + SPARE);
    limit.rlim_cur = few < limit.rlim_max ? few : limit.rlim_max;
    if (!soft)
        limit.rlim_max = limit.rlim_cur;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (soft)
        communicators();

    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < N; k++)
            in[i * N + k] = t_rank + i + k;
        OK(MPI_Iallreduce(&in[i * N], &out[i * N], N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[i]));
    }
    OK(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < N; k++)
            SAME(out[i * N + k], t_size * (t_size - 1) / 2 + t_size * (i + k));
    return t_done("coll_ring_tight");
}
