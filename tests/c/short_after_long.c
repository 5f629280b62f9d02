/* Every rank starts long sends that nobody has posted a receive for, then sends short messages with blocking calls, and only then
 * receives.  The long ones must not use up what lets the short ones leave.
 */
#include "check.h"

enum { LONG = 12, LONG_BYTES = 200000, SHORT = 200, SHORT_BYTES = 1000 };

static unsigned char out[LONG][LONG_BYTES], in[LONG_BYTES], brief[SHORT_BYTES];

static void fill(unsigned char *p, size_t n, unsigned who, unsigned number)
{
    for (size_t i = 0; i < n; i++)
        p[i] = t_byte(who, number, i);
}

static void is_filled(const unsigned char *p, size_t n, unsigned who, unsigned number)
{
    for (size_t i = 0; i < n; i++)
        SAME(p[i], t_byte(who, number, i));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size;
    MPI_Request requests[LONG];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LONG; i++) {
            fill(out[i], LONG_BYTES, t_rank, round * LONG + i);
            OK(MPI_Isend(out[i], LONG_BYTES, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[i]));
        }
        for (int i = 0; i < SHORT; i++) {
            fill(brief, SHORT_BYTES, t_rank, 1000 + i);
            OK(MPI_Send(brief, SHORT_BYTES, MPI_BYTE, right, 2, MPI_COMM_WORLD));
        }
        for (int i = 0; i < SHORT; i++) {
            OK(MPI_Recv(brief, SHORT_BYTES, MPI_BYTE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            is_filled(brief, SHORT_BYTES, left, 1000 + i);
        }
        for (int i = 0; i < LONG; i++) {
            OK(MPI_Recv(in, LONG_BYTES, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            is_filled(in, LONG_BYTES, left, round * LONG + i);
        }
        OK(MPI_Waitall(LONG, requests, MPI_STATUSES_IGNORE));
    }
    return t_done("short_after_long");
}
