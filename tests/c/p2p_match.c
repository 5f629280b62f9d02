/* Matching: wildcards, order, probe and matched probe, many unexpected messages, many posted
 * receives, communicators kept apart, Ssend's synchronisation.
 */
#include "check.h"

static void wildcards(void)
{
    enum { TAGS = 5 };
    MPI_Status status;
    /* Everybody sends TAGS messages to rank 0, which takes each exactly once. */
    for (int kind = 0; kind < 4; kind++) {
        MPI_Request requests[TAGS];
        int words[TAGS];
        for (int tag = 0; tag < TAGS; tag++) {
            words[tag] = t_rank * 100 + tag;
            OK(MPI_Isend(&words[tag], 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[tag]));
        }
        if (t_rank == 0) {
            char *seen = calloc((size_t)t_size * TAGS, 1);
            int *last = malloc((size_t)t_size * sizeof *last);
            for (int r = 0; r < t_size; r++)
                last[r] = -1;
            for (int i = 0; i < t_size * TAGS; i++) {
                int source = kind & 1 ? MPI_ANY_SOURCE : i % t_size, tag = kind & 2 ? MPI_ANY_TAG : i / t_size, word = -1;
                OK(MPI_Recv(&word, 1, MPI_INT, source, tag, MPI_COMM_WORLD, &status));
                SAME(word, status.MPI_SOURCE * 100 + status.MPI_TAG);
                if (source != MPI_ANY_SOURCE)
                    SAME(status.MPI_SOURCE, source);
                if (tag != MPI_ANY_TAG)
                    SAME(status.MPI_TAG, tag);
                else { /* from one source they come in the order sent */
                    CHECK(status.MPI_TAG > last[status.MPI_SOURCE]);
                    last[status.MPI_SOURCE] = status.MPI_TAG;
                }
                char *mark = &seen[status.MPI_SOURCE * TAGS + status.MPI_TAG];
                CHECK(!*mark);
                *mark = 1;
            }
            free(seen);
            free(last);
        }
        OK(MPI_Waitall(TAGS, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* Messages of alternating sizes, same envelope: none may overtake another, whichever protocol carries it. */
static void order(void)
{
    enum { N = 60, LARGE = 40000 };
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size;
    static int out[N][LARGE / 4], in[LARGE / 4];
    MPI_Request requests[N];
    for (int posted = 0; posted < 2; posted++) {
        static int early[N][LARGE / 4];
        MPI_Request receives[N];
        if (posted) {
            for (int i = 0; i < N; i++)
                OK(MPI_Irecv(early[i], LARGE / 4, MPI_INT, i % 3 ? left : MPI_ANY_SOURCE, i % 2 ? 7 : MPI_ANY_TAG, MPI_COMM_WORLD,
                             &receives[i]));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        for (int i = 0; i < N; i++) {
            int words = i % 5 == 0 ? LARGE / 4 : i % 5 == 3 ? 1000 : 1 + i % 5;
            out[i][0] = i;
            out[i][words - 1] = words > 1 ? -i : i;
            OK(MPI_Isend(out[i], words, MPI_INT, right, 7, MPI_COMM_WORLD, &requests[i]));
        }
        for (int i = 0; i < N; i++) {
            int words = i % 5 == 0 ? LARGE / 4 : i % 5 == 3 ? 1000 : 1 + i % 5, got;
            MPI_Status status;
            int *data = in;
            if (posted) {
                OK(MPI_Wait(&receives[i], &status));
                data = early[i];
            } else {
                OK(MPI_Recv(in, LARGE / 4, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            }
            OK(MPI_Get_count(&status, MPI_INT, &got));
            SAME(got, words);
            SAME(data[0], i);
            SAME(data[words - 1], words > 1 ? -i : i);
        }
        OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

static void probes(void)
{
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, flag, count;
    static const int lengths[] = {0, 1, 13, 5000, 70000};
    static char out[70000], in[70000];
    MPI_Status status;
    MPI_Message message;
    MPI_Request sending, receiving;

    OK(MPI_Iprobe(left, 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Improbe(left, 999, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
    CHECK(!flag);

    for (int i = 0; i < 5; i++)
        for (int way = 0; way < 8; way++) {
            int n = lengths[i], tag = 10 + way;
            int source = way & 1 ? MPI_ANY_SOURCE : left;
            memset(out, 'a' + way, (size_t)n);
            memset(in, 0, (size_t)n);
            /* `way` 6 and 7 ask with any tag: nothing else may be on its way from anybody to us. */
            if (way >= 6)
                OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Isend(out, n, MPI_CHAR, right, tag, MPI_COMM_WORLD, &sending));
            status.MPI_ERROR = 4711;
            switch (way) {
            case 0:
            case 1:
                OK(MPI_Probe(source, tag, MPI_COMM_WORLD, &status));
                OK(MPI_Get_count(&status, MPI_CHAR, &count));
                SAME(count, n);
                SAME(status.MPI_SOURCE, left);
                OK(MPI_Recv(in, n, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
                break;
            case 2:
            case 3:
                do {
                    OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &status));
                } while (!flag);
                OK(MPI_Get_count(&status, MPI_CHAR, &count));
                SAME(count, n);
                OK(MPI_Recv(in, n, MPI_CHAR, source, tag, MPI_COMM_WORLD, &status));
                break;
            case 4:
            case 5:
                OK(MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status));
                CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC);
                OK(MPI_Get_count(&status, MPI_CHAR, &count));
                SAME(count, n);
                /* A message that has been matched is seen by nobody else. */
                OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                CHECK(!flag);
                OK(MPI_Mrecv(in, n, MPI_CHAR, &message, &status));
                CHECK(message == MPI_MESSAGE_NULL);
                break;
            default:
                do {
                    OK(MPI_Improbe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
                } while (!flag);
                SAME(status.MPI_TAG, tag);
                OK(MPI_Imrecv(in, n, MPI_CHAR, &message, &receiving));
                CHECK(message == MPI_MESSAGE_NULL);
                OK(MPI_Wait(&receiving, &status));
            }
            SAME(status.MPI_SOURCE, left);
            SAME(status.MPI_TAG, tag);
            OK(MPI_Get_count(&status, MPI_CHAR, &count));
            SAME(count, n);
            CHECK(n == 0 || (in[0] == 'a' + way && in[n - 1] == 'a' + way));
            OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }

    /* Of two messages with one envelope, mprobe takes the first and a receive then gets the second. */
    int first = 1, second = 2, word = 0;
    MPI_Request two[2];
    OK(MPI_Isend(&first, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &two[0]));
    OK(MPI_Isend(&second, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &two[1]));
    OK(MPI_Mprobe(left, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&word, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(word, 2);
    OK(MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    SAME(word, 1);
    OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
}

/* Thousands of messages nobody asked for yet, taken in reverse order of tags; then the same number
 * of receives posted ahead. */
static void floods(void)
{
    enum { N = 3000 };
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, word;
    static int out[N], in[N];
    static MPI_Request sends[N], receives[N];
    for (int i = 0; i < N; i++) {
        out[i] = t_rank * N + i;
        OK(MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]));
    }
    for (int i = N - 1; i >= 0; i--) {
        OK(MPI_Recv(&word, 1, MPI_INT, i % 7 ? left : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        SAME(word, left * N + i);
    }
    OK(MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));

    for (int i = 0; i < N; i++)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, i % 5 ? left : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &receives[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = N - 1; i >= 0; i--)
        OK(MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]));
    OK(MPI_Waitall(N, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        SAME(in[i], left * N + i);

    /* Larger ones, so that they do not fit any queue, while the receiver is not looking. */
    enum { M = 200, BYTES = 9000 };
    static char bulk[BYTES], taken[BYTES];
    memset(bulk, 'x', sizeof bulk);
    for (int i = 0; i < M; i++)
        OK(MPI_Isend(bulk, BYTES, MPI_CHAR, right, i, MPI_COMM_WORLD, &sends[i]));
    t_sleep_ms(20);
    for (int i = M - 1; i >= 0; i--) {
        taken[BYTES - 1] = 0;
        OK(MPI_Recv(taken, BYTES, MPI_CHAR, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(taken[BYTES - 1] == 'x');
    }
    OK(MPI_Waitall(M, sends, MPI_STATUSES_IGNORE));
}

static void contexts_apart(void)
{
    MPI_Comm other;
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, a = 1, b = 2, got = 0, flag;
    MPI_Request requests[2];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Isend(&a, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&b, 1, MPI_INT, right, 3, other, &requests[1]));
    OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE));
    SAME(got, 2);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Recv(&got, 1, MPI_INT, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, 1);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_free(&other));
}

/* A synchronous send is complete only when the receive has started. */
static void synchronous(void)
{
    if (t_size > 1 && t_rank < 2) {
        int peer = 1 - t_rank, word = 5, flag, go = 0;
        for (int bytes_kind = 0; bytes_kind < 2; bytes_kind++) {
            int n = bytes_kind ? 30000 : 1;
            int *data = t_alloc((size_t)n * sizeof *data);
            memset(data, 0, (size_t)n * sizeof *data);
            if (t_rank == 0) {
                MPI_Request sending;
                OK(MPI_Issend(data, n, MPI_INT, peer, 1, MPI_COMM_WORLD, &sending));
                for (int i = 0; i < 50; i++) {
                    OK(MPI_Test(&sending, &flag, MPI_STATUS_IGNORE));
                    CHECK(!flag);
                }
                t_sleep_ms(20);
                OK(MPI_Test(&sending, &flag, MPI_STATUS_IGNORE));
                CHECK(!flag);
                OK(MPI_Send(&word, 1, MPI_INT, peer, 2, MPI_COMM_WORLD));
                OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Recv(&go, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                OK(MPI_Recv(data, n, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
            free(data);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    wildcards();
    order();
    probes();
    floods();
    contexts_apart();
    synchronous();
    return t_done("p2p_match");
}
