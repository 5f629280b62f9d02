/* Ranks talk for a while over whatever lies between them: talk SECONDS.
 *
 * Each sends to the next and receives from the one before, messages of all sizes up to 1 MiB, a long
 * one together with short ones that must not wait for it, and checks every byte.  At the end each
 * has received as many as were sent to it: nothing is lost, however the network behaved meanwhile.
 */
#include "../c/check.h"

enum { SIZES = 9, SHORT = 4 };
static const int sizes[SIZES] = {0, 1, 8, 100, 1500, 9000, 65536, 300000, 1 << 20};

static void fill(unsigned char *p, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(seed + (unsigned)i * 7u + ((unsigned)i >> 8));
}

static void verify(const unsigned char *p, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        if (p[i] != (unsigned char)(seed + (unsigned)i * 7u + ((unsigned)i >> 8)))
            t_fail(__FILE__, __LINE__, "byte %d of %d is wrong", i, n);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    double limit = argc > 1 ? atof(argv[1]) : 1, end = t_seconds() + limit, longest = 0;
    int next = (t_rank + 1) % t_size, before = (t_rank + t_size - 1) % t_size, go = 1;
    unsigned char *out = t_alloc(1 << 20), *in = t_alloc(1 << 20);
    unsigned round = 0;
    while (go) {
        int n = sizes[round % SIZES];
        unsigned words[SHORT], seen[SHORT];
        MPI_Request r[2 + 2 * SHORT];
        double start = t_seconds();
        fill(out, n, round + (unsigned)t_rank);
        OK(MPI_Irecv(in, n, MPI_BYTE, before, 1, MPI_COMM_WORLD, &r[0]));
        OK(MPI_Isend(out, n, MPI_BYTE, next, 1, MPI_COMM_WORLD, &r[1]));
        for (int i = 0; i < SHORT; i++) {
            words[i] = round * SHORT + (unsigned)i;
            OK(MPI_Irecv(&seen[i], 1, MPI_UNSIGNED, before, 2, MPI_COMM_WORLD, &r[2 + 2 * i]));
            OK(MPI_Isend(&words[i], 1, MPI_UNSIGNED, next, 2, MPI_COMM_WORLD, &r[3 + 2 * i]));
        }
        OK(MPI_Waitall(2 + 2 * SHORT, r, MPI_STATUSES_IGNORE));
        verify(in, n, round + (unsigned)before);
        for (int i = 0; i < SHORT; i++)
            SAME(seen[i], words[i]);
        if (t_seconds() - start > longest)
            longest = t_seconds() - start;
        round++;
        go = t_seconds() < end;
        /* Rank 0 says when it is over, so that all end after the same round. */
        OK(MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    unsigned lowest, highest;
    OK(MPI_Allreduce(&round, &lowest, 1, MPI_UNSIGNED, MPI_MIN, MPI_COMM_WORLD));
    OK(MPI_Allreduce(&round, &highest, 1, MPI_UNSIGNED, MPI_MAX, MPI_COMM_WORLD));
    SAME(lowest, highest);
    double worst;
    OK(MPI_Reduce(&longest, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    free(out);
    free(in);
    OK(MPI_Finalize());
    if (t_rank == 0)
        printf("rounds %u, longest %.3f s\nok talk\n", round, worst);
    return 0;
}
