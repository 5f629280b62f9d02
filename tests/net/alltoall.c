/* Everybody to everybody, every size up to 1 MiB: alltoall [LARGEST].  Checks the data and prints the
 * time from before MPI_Init to after the last exchange.
 */
#include "../c/check.h"

int main(int argc, char **argv)
{
    double start = t_seconds();
    t_init(&argc, &argv);
    double ready = t_seconds();
    size_t largest = argc > 1 ? (size_t)atol(argv[1]) : 1 << 20;
    unsigned char *out = t_alloc(largest * (size_t)t_size), *in = t_alloc(largest * (size_t)t_size);
    for (size_t n = 1; n <= largest; n *= 2) {
        /* The last byte of each block says from whom, to whom and how long. */
        for (int r = 0; r < t_size; r++) {
            memset(out + n * (size_t)r, r, n);
            out[n * (size_t)r + n - 1] = (unsigned char)(t_rank * 31 + r + (int)(n % 251));
        }
        memset(in, 255, n * (size_t)t_size);
        OK(MPI_Alltoall(out, (int)n, MPI_BYTE, in, (int)n, MPI_BYTE, MPI_COMM_WORLD));
        for (int r = 0; r < t_size; r++) {
            const unsigned char *block = in + n * (size_t)r;
            SAME(block[n - 1], (unsigned char)(r * 31 + t_rank + (int)(n % 251)));
            if (n > 1) {
                SAME(block[0], (unsigned char)t_rank);
                SAME(block[n / 2 - (n == 2)], (unsigned char)t_rank);
            }
        }
    }
    double end = t_seconds(), mine[2] = {ready - start, end - ready}, worst[2];
    OK(MPI_Reduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    free(out);
    free(in);
    if (t_rank == 0)
        printf("%d ranks: start %.3f s, exchanges %.3f s\nok alltoall\n", t_size, worst[0], worst[1]);
    OK(MPI_Finalize());
    return 0;
}
