/* Ranks on hosts of their own that wait by MPI_Test alone, where hosts may be namespaces on fewer processors than there are ranks: ROUNDS reductions.
 * If none of them lets others run, each of these takes as long as the system lets ranks keep a processor, some milliseconds.
 */
#include "../c/check.h"

enum { ROUNDS = 20000 };

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    double start = t_seconds();
    for (int round = 0; round < ROUNDS; round++) {
        int mine = t_rank + round, sum = 0, done = 0;
        MPI_Request request;
        OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        while (!done)
            OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        SAME(sum, t_size * (t_size - 1) / 2 + t_size * round);
    }
    if (t_rank == 0)
        printf("%d rounds in %.3f s\n", ROUNDS, t_seconds() - start);
    return t_done("tested");
}
