/* Cancel.  A receive that no message matches is always cancelled; a send may be or may not be, and
 * its status tells the truth: a cancelled message is never received, one not cancelled always is.
 */
#include "check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, word = -1, flag, cancelled, ok = 7;
    MPI_Request r;
    MPI_Status s;

    for (int i = 0; i < 100; i++) {
        OK(MPI_Irecv(&word, 1, MPI_INT, i % 2 ? left : MPI_ANY_SOURCE, 100 + i, MPI_COMM_WORLD, &r));
        OK(MPI_Cancel(&r));
        CHECK(r != MPI_REQUEST_NULL);
        if (i % 3) {
            OK(MPI_Wait(&r, &s));
        } else {
            do {
                OK(MPI_Test(&r, &flag, &s));
            } while (!flag);
        }
        OK(MPI_Test_cancelled(&s, &cancelled));
        CHECK(cancelled);
        CHECK(r == MPI_REQUEST_NULL);
    }
    /* What was cancelled takes no message. */
    OK(MPI_Sendrecv(&ok, 1, MPI_INT, right, 100, &word, 1, MPI_INT, left, 100, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(word, 7);

    /* A completed receive cannot be cancelled any more. */
    OK(MPI_Irecv(&word, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r));
    OK(MPI_Send(&ok, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    do {
        OK(MPI_Request_get_status(r, &flag, &s));
    } while (!flag);
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &s));
    OK(MPI_Test_cancelled(&s, &cancelled));
    CHECK(!cancelled);
    SAME(s.MPI_SOURCE, left);

    /* A persistent receive goes on after it was cancelled. */
    OK(MPI_Recv_init(&word, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &r));
    OK(MPI_Start(&r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &s));
    OK(MPI_Test_cancelled(&s, &cancelled));
    CHECK(cancelled && r != MPI_REQUEST_NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody sends before all have cancelled */
    word = 0;
    OK(MPI_Start(&r));
    OK(MPI_Send(&ok, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
    OK(MPI_Wait(&r, &s));
    OK(MPI_Test_cancelled(&s, &cancelled));
    CHECK(!cancelled);
    SAME(word, 7);
    OK(MPI_Request_free(&r));

    /* Sends: small and large, the receiver not there yet. */
    static char out[100000], in[100000];
    static const int sizes[] = {0, 4, 1000, 100000};
    for (int i = 0; i < 4; i++)
        for (int mode = 0; mode < 2; mode++) {
            OK(MPI_Barrier(MPI_COMM_WORLD));
            if (mode)
                OK(MPI_Issend(out, sizes[i], MPI_CHAR, right, 10, MPI_COMM_WORLD, &r));
            else
                OK(MPI_Isend(out, sizes[i], MPI_CHAR, right, 10, MPI_COMM_WORLD, &r));
            OK(MPI_Cancel(&r));
            /* An uncancelled synchronous send completes only when it is received: tell the receiver first. */
            if (mode == 0 && sizes[i] < 100) {
                OK(MPI_Wait(&r, &s));
                OK(MPI_Test_cancelled(&s, &cancelled));
            } else {
                double until = t_seconds() + 0.2;
                do {
                    OK(MPI_Test(&r, &flag, &s));
                } while (!flag && t_seconds() < until);
                cancelled = 0;
                if (flag)
                    OK(MPI_Test_cancelled(&s, &cancelled));
            }
            int comes = !cancelled, expected, came, arrives;
            MPI_Request late = MPI_REQUEST_NULL;
            OK(MPI_Sendrecv(&comes, 1, MPI_INT, right, 11, &expected, 1, MPI_INT, left, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (expected)
                OK(MPI_Irecv(in, sizes[i], MPI_CHAR, left, 10, MPI_COMM_WORLD, &late));
            if (r != MPI_REQUEST_NULL) {
                /* The receiver's answer may have taken longer: it may have been cancelled all the same. */
                OK(MPI_Wait(&r, &s));
                OK(MPI_Test_cancelled(&s, &cancelled));
            }
            came = !cancelled;
            OK(MPI_Sendrecv(&came, 1, MPI_INT, right, 12, &arrives, 1, MPI_INT, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK(expected || !arrives);
            if (expected) {
                if (!arrives)
                    OK(MPI_Cancel(&late));
                OK(MPI_Wait(&late, &s));
                OK(MPI_Test_cancelled(&s, &cancelled));
                SAME(cancelled, !arrives);
            }
            OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Iprobe(left, 10, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
        }
    return t_done("p2p_cancel");
}
