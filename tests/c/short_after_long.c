/* Every rank starts long sends that nobody has posted a receive for, then sends short messages with blocking calls, and only then
 * receives.  The long ones must not use up what lets the short ones leave.
 */
#include "check.h"

enum { LONG = 12, LONG_BYTES = 200000, SHORT = 200, SHORT_BYTES = 1000 };

static char out[LONG][LONG_BYTES], in[LONG][LONG_BYTES];

static void fill(char *p, int n, int seed)
{
    for (int i = 0; i < n; i++)
        p[i] = (char)(seed * 31 + i * 7 + i / 251);
}

static void is_filled(const char *p, int n, int seed)
{
    for (int i = 0; i < n; i++)
        SAME(p[i], (char)(seed * 31 + i * 7 + i / 251));
}

int main(int argc, char **argv)
{
    int rank, size;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request requests[LONG];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LONG; i++) {
            fill(out[i], LONG_BYTES, rank + i + round);
            OK(MPI_Isend(out[i], LONG_BYTES, MPI_CHAR, right, 1, MPI_COMM_WORLD, &requests[i]));
        }
        char brief[SHORT_BYTES];
        for (int i = 0; i < SHORT; i++) {
            fill(brief, SHORT_BYTES, rank * 3 + i + round);
            OK(MPI_Send(brief, SHORT_BYTES, MPI_CHAR, right, 2, MPI_COMM_WORLD));
        }
        for (int i = 0; i < SHORT; i++) {
            OK(MPI_Recv(brief, SHORT_BYTES, MPI_CHAR, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            is_filled(brief, SHORT_BYTES, left * 3 + i + round);
        }
        for (int i = 0; i < LONG; i++) {
            OK(MPI_Recv(in[i], LONG_BYTES, MPI_CHAR, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            is_filled(in[i], LONG_BYTES, left + i + round);
        }
        OK(MPI_Waitall(LONG, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Finalize());
    return 0;
}
