/* Many non-blocking collectives under way at once while the process can have few descriptors: whoever runs them waits for
 * what earlier ones give back. None fails. Argument "soft": the process could have more if it asked for them, and
 * there are many communicators. Argument "none": there is none left for a communicator's connections, and nobody to give any back: an
 * error on all ranks.
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

static void none_left(void)
{
    MPI_Comm comm;
    MPI_Request r;
    int sum = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max = (rlim_t)highest();
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int held[256], number = 0;
    while (number < 256 && (held[number] = dup(STDERR_FILENO)) >= 0)
        number++;
    CHECK(number < 256);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iallreduce(&t_rank, &sum, 1, MPI_INT, MPI_SUM, comm, &r));
    FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    /* What needs none works. */
    OK(MPI_Allreduce(&t_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, t_size * (t_size - 1) / 2);
    OK(MPI_Comm_free(&comm));
    while (number > 0)
        close(held[--number]);
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
    if (argc > 1 && strcmp(argv[1], "none") == 0) {
        none_left();
        return t_done("coll_ring_tight");
    }
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
