/* Sendrecv in all its forms, PROC_NULL, messages to oneself, truncation, MPI_BOTTOM, and the
 * large-count forms of the point-to-point calls.
 */
#include "check.h"

static int right, left;

static void sendrecv(void)
{
    static const int sizes[] = {0, 1, 50, 3000, 200000};
    static unsigned char out[200000], in[200001];
    MPI_Status status;
    MPI_Request request;
    int got;
    for (int i = 0; i < 5; i++) {
        size_t n = (size_t)sizes[i];
        for (int way = 0; way < 4; way++) {
            unsigned round = (unsigned)(i * 4 + way);
            memset(in, 0x5A, n + 1);
            t_fill(out, T_PLAIN, n, (unsigned)t_rank, round);
            switch (way) {
            case 0:
                OK(MPI_Sendrecv(out, (int)n, MPI_BYTE, right, 1, in, (int)n, MPI_BYTE, left, 1, MPI_COMM_WORLD, &status));
                break;
            case 1:
                OK(MPI_Isendrecv(out, (int)n, MPI_BYTE, right, 1, in, (int)n, MPI_BYTE, left, 1, MPI_COMM_WORLD, &request));
                OK(MPI_Wait(&request, &status));
                break;
            case 2:
                memcpy(in, out, n);
                OK(MPI_Sendrecv_replace(in, (int)n, MPI_BYTE, right, 1, left, 1, MPI_COMM_WORLD, &status));
                break;
            default:
                memcpy(in, out, n);
                OK(MPI_Isendrecv_replace(in, (int)n, MPI_BYTE, right, 1, left, 1, MPI_COMM_WORLD, &request));
                OK(MPI_Wait(&request, &status));
            }
            VERIFY(in, T_PLAIN, n, (unsigned)left, round);
            if (way % 2)
                continue; /* the status of a non-blocking one: p2p_status.c */
            SAME(status.MPI_SOURCE, left);
            SAME(status.MPI_TAG, 1);
            OK(MPI_Get_count(&status, MPI_BYTE, &got));
            SAME(got, n);
        }
    }

    /* different lengths and types on the two sides, wildcards */
    int numbers[100], taken[150];
    for (int i = 0; i < 100; i++)
        numbers[i] = t_rank + i;
    MPI_Datatype pair;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Sendrecv(numbers, 50, pair, right, 9, taken, 150, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &got));
    SAME(got, 100);
    OK(MPI_Get_count(&status, pair, &got));
    SAME(got, 50);
    SAME(taken[99], left + 99);
    OK(MPI_Type_free(&pair));

    /* replace, with a derived type */
    size_t span = t_span(T_NESTED, 5000);
    unsigned char *both = t_alloc(span + 1);
    int count;
    MPI_Datatype nested = t_type(T_NESTED, 5000, &count);
    t_fill(both, T_NESTED, 5000, (unsigned)t_rank, 77);
    for (size_t i = 0, next = 0; next <= span; next++) /* the gaps as VERIFY wants them */
        if (i < 5000 && t_at(T_NESTED, i) == next)
            i++;
        else
            both[next] = 0x5A;
    OK(MPI_Sendrecv_replace(both, count, nested, right, 2, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    VERIFY(both, T_NESTED, 5000, (unsigned)left, 77);
    OK(MPI_Type_free(&nested));
    free(both);
}

/* What one call sends is behind all that was sent before, and what it receives is behind all receives that were posted before. */
static void in_order(void)
{
    enum { MANY = 40, LONG = 60000, GAPS = 5000 };
    static unsigned char out[MANY][LONG], in[MANY + 1][LONG];
    static int gaps[2 * GAPS], others[2 * GAPS];
    MPI_Request r[MANY], received[MANY + 1], first;
    MPI_Datatype every_other;
    int x = -1, y = -1;
    for (int i = 0; i <= MANY; i++)
        OK(MPI_Irecv(in[i], LONG, MPI_BYTE, left, 8, MPI_COMM_WORLD, &received[i]));
    for (int i = 0; i < MANY; i++) {
        memset(out[i], i + 1, LONG);
        OK(MPI_Isend(out[i], LONG, MPI_BYTE, right, 8, MPI_COMM_WORLD, &r[i]));
    }
    /* the last of the row goes, the first of it comes, in a type with gaps */
    OK(MPI_Type_vector(GAPS, 1, 2, MPI_INT, &every_other));
    OK(MPI_Type_commit(&every_other));
    for (int i = 0; i < 2 * GAPS; i++)
        gaps[i] = others[i] = 0x29292929;
    OK(MPI_Isend(others, 1, every_other, right, 7, MPI_COMM_WORLD, &first));
    OK(MPI_Sendrecv_replace(gaps, 1, every_other, right, 8, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2 * GAPS; i++)
        SAME(gaps[i], 0x29292929);
    OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(MANY + 1, received, MPI_STATUSES_IGNORE));
    for (int i = 0; i <= MANY; i++) {
        int want = i < MANY ? i + 1 : 0x29, bytes = i < MANY ? LONG : (int)(GAPS * sizeof(int));
        CHECK(in[i][0] == want && in[i][bytes - 1] == want);
    }
    OK(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
    OK(MPI_Type_free(&every_other));

    for (int i = 0; i < 100; i++) {
        int one = 2 * i, two = 2 * i + 1;
        OK(MPI_Irecv(&x, 1, MPI_INT, left, 11, MPI_COMM_WORLD, &first));
        OK(MPI_Isend(&one, 1, MPI_INT, right, 11, MPI_COMM_WORLD, &r[0]));
        OK(MPI_Sendrecv(&two, 1, MPI_INT, right, 11, &y, 1, MPI_INT, left, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        SAME(x, one);
        SAME(y, two);
    }
}

/* Sends and receives of one call that end differently. */
static void unequal(void)
{
    int out[2] = {t_rank, 10 * t_rank}, in[2] = {-1, -1}, error, flag;
    MPI_Status s;

    /* along a row whose ends have nobody on one side */
    int up = t_rank + 1 < t_size ? t_rank + 1 : MPI_PROC_NULL, down = t_rank > 0 ? t_rank - 1 : MPI_PROC_NULL;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Sendrecv(out, 2, MPI_INT, up, 3, in, 2, MPI_INT, down, 3, MPI_COMM_WORLD, &s));
        SAME(s.MPI_SOURCE, down);
        SAME(in[1], t_rank > 0 ? 10 * (t_rank - 1) : -1);
        in[0] = out[0];
        in[1] = out[1];
        OK(MPI_Sendrecv_replace(in, 2, MPI_INT, down, 4, up, 4, MPI_COMM_WORLD, &s));
        SAME(s.MPI_SOURCE, up);
        SAME(in[1], up == MPI_PROC_NULL ? out[1] : 10 * up);
        in[1] = -1;
    }

    /* where the receive is wrong nothing is sent, however right the send is */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    error = MPI_Sendrecv(out, 1, MPI_INT, right, 5, in, 1, MPI_INT, left, -17, MPI_COMM_WORLD, &s);
    MPI_Error_class(error, &error);
    SAME(error, MPI_ERR_TAG);
    error = MPI_Sendrecv(out, 1, MPI_INT, right, 5, in, 1, MPI_INT, t_size, 5, MPI_COMM_WORLD, &s);
    MPI_Error_class(error, &error);
    SAME(error, MPI_ERR_RANK);
    error = MPI_Sendrecv(out, 1, MPI_INT, right, 5, in, 1, MPI_DATATYPE_NULL, left, 5, MPI_COMM_WORLD, &s);
    MPI_Error_class(error, &error);
    SAME(error, MPI_ERR_TYPE);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);

    /* what comes is longer than its buffer, and what was sent has left */
    in[1] = -1;
    error = MPI_Sendrecv(out, 2, MPI_INT, right, 6, in, 1, MPI_INT, left, 6, MPI_COMM_WORLD, &s);
    MPI_Error_class(error, &error);
    SAME(error, MPI_ERR_TRUNCATE);
    SAME(in[1], -1);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Sendrecv(out, 2, MPI_INT, right, 6, in, 2, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &s));
    SAME(in[1], 10 * left);
}

static void nobody(void)
{
    int word = 42, flag, count;
    MPI_Status s;
    MPI_Request r[2];
    MPI_Message message;
    OK(MPI_Send(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Ssend(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Rsend(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Bsend(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    for (int way = 0; way < 6; way++) {
        memset(&s, 0x33, sizeof s);
        switch (way) {
        case 0:
            OK(MPI_Recv(&word, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &s));
            break;
        case 1:
            OK(MPI_Irecv(&word, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &r[0]));
            OK(MPI_Wait(&r[0], &s));
            break;
        case 2:
            OK(MPI_Probe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &s));
            break;
        case 3:
            flag = 0;
            OK(MPI_Iprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &s));
            CHECK(flag);
            break;
        case 4:
            OK(MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &message, &s));
            CHECK(message == MPI_MESSAGE_NO_PROC);
            OK(MPI_Mrecv(&word, 1, MPI_INT, &message, &s));
            CHECK(message == MPI_MESSAGE_NULL);
            break;
        default:
            flag = 0;
            OK(MPI_Improbe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &message, &s));
            CHECK(flag && message == MPI_MESSAGE_NO_PROC);
            OK(MPI_Imrecv(&word, 1, MPI_INT, &message, &r[0]));
            OK(MPI_Wait(&r[0], &s));
        }
        SAME(s.MPI_SOURCE, MPI_PROC_NULL);
        SAME(s.MPI_TAG, MPI_ANY_TAG);
        OK(MPI_Get_count(&s, MPI_INT, &count));
        SAME(count, 0);
        SAME(word, 42);
    }
    OK(MPI_Sendrecv(&word, 1, MPI_INT, MPI_PROC_NULL, 0, &word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &s));
    SAME(s.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPI_Send_init(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Recv_init(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[1]));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Startall(2, r));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
    SAME(word, 42);
}

static void myself(void)
{
    enum { N = 100000 };
    static int out[N], in[N];
    MPI_Request r[2];
    MPI_Status s;
    int flag, got = 0, word = 3;
    for (int i = 0; i < N; i++)
        out[i] = i ^ t_rank;
    static const int sizes[] = {0, 1, 100, N};
    for (int i = 0; i < 4; i++)
        for (int way = 0; way < 3; way++) {
            memset(in, 0, sizeof in);
            if (way == 0) { /* receive first */
                OK(MPI_Irecv(in, sizes[i], MPI_INT, t_rank, 1, MPI_COMM_WORLD, &r[0]));
                OK(MPI_Send(out, sizes[i], MPI_INT, t_rank, 1, MPI_COMM_WORLD));
                OK(MPI_Wait(&r[0], &s));
            } else if (way == 1) { /* send first */
                OK(MPI_Isend(out, sizes[i], MPI_INT, t_rank, 1, MPI_COMM_WORLD, &r[0]));
                OK(MPI_Iprobe(t_rank, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                OK(MPI_Recv(in, sizes[i], MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &s));
                OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
            } else { /* synchronous, on MPI_COMM_SELF */
                OK(MPI_Issend(out, sizes[i], MPI_INT, 0, 1, MPI_COMM_SELF, &r[0]));
                OK(MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE));
                CHECK(!flag);
                OK(MPI_Recv(in, sizes[i], MPI_INT, 0, 1, MPI_COMM_SELF, &s));
                OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
            }
            SAME(s.MPI_SOURCE, way == 2 ? 0 : t_rank);
            OK(MPI_Get_count(&s, MPI_INT, &got));
            SAME(got, sizes[i]);
            CHECK(memcmp(in, out, (size_t)sizes[i] * sizeof *in) == 0);
        }
    OK(MPI_Sendrecv_replace(&word, 1, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    SAME(word, 3);
}

/* A message longer than its receive: the error class, nothing written behind the buffer, and the
 * library goes on working. */
static void truncation(void)
{
    static const int lengths[] = {12, 100, 5000, 300000};
    MPI_Errhandler before;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    static char out[300000], in[300000];
    memset(out, 'o', sizeof out);
    for (int i = 0; i < 4; i++)
        for (int way = 0; way < 4; way++) {
            int n = lengths[i], room = n / 2;
            MPI_Request sending, receiving;
            MPI_Status s;
            memset(in, 'i', sizeof in);
            if (way == 0) { /* expected */
                OK(MPI_Irecv(in, room, MPI_CHAR, left, 1, MPI_COMM_WORLD, &receiving));
                OK(MPI_Barrier(MPI_COMM_WORLD));
                OK(MPI_Isend(out, n, MPI_CHAR, right, 1, MPI_COMM_WORLD, &sending));
                FAILS(MPI_Wait(&receiving, &s), MPI_ERR_TRUNCATE);
                CHECK(receiving == MPI_REQUEST_NULL);
            } else if (way == 1) { /* unexpected */
                OK(MPI_Isend(out, n, MPI_CHAR, right, 1, MPI_COMM_WORLD, &sending));
                OK(MPI_Probe(left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                FAILS(MPI_Recv(in, room, MPI_CHAR, left, 1, MPI_COMM_WORLD, &s), MPI_ERR_TRUNCATE);
            } else if (way == 2) { /* in a list: MPI_ERR_IN_STATUS, and each status says */
                MPI_Request list[2];
                MPI_Status states[2];
                int good = 0, word = 8;
                OK(MPI_Irecv(in, room, MPI_CHAR, left, 1, MPI_COMM_WORLD, &list[0]));
                OK(MPI_Irecv(&good, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &list[1]));
                OK(MPI_Isend(out, n, MPI_CHAR, right, 1, MPI_COMM_WORLD, &sending));
                OK(MPI_Send(&word, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
                int left_over = 2;
                while (left_over > 0) { /* MPI_ERR_PENDING is allowed for the one that is not over yet */
                    FAILS(MPI_Waitall(2, list, states), MPI_ERR_IN_STATUS);
                    SAME(t_class(states[0].MPI_ERROR), MPI_ERR_TRUNCATE);
                    if (t_class(states[1].MPI_ERROR) == MPI_ERR_PENDING)
                        OK(MPI_Wait(&list[1], MPI_STATUS_IGNORE));
                    else
                        SAME(states[1].MPI_ERROR, MPI_SUCCESS);
                    left_over = 0;
                }
                SAME(good, 8);
            } else { /* matched probe */
                MPI_Message message;
                OK(MPI_Isend(out, n, MPI_CHAR, right, 1, MPI_COMM_WORLD, &sending));
                OK(MPI_Mprobe(left, 1, MPI_COMM_WORLD, &message, &s));
                FAILS(MPI_Mrecv(in, room, MPI_CHAR, &message, &s), MPI_ERR_TRUNCATE);
            }
            for (int k = room; k < n; k++)
                CHECK(in[k] == 'i');
            MPI_Wait(&sending, MPI_STATUS_IGNORE); /* what the sender is told is not specified */
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    OK(MPI_Errhandler_free(&before));
}

static void bottom(void)
{
    int a = t_rank, b = t_rank + 1, x = -1, y = -1;
    int lengths[2] = {1, 1};
    MPI_Aint out[2], in[2];
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, from, to;
    OK(MPI_Get_address(&a, &out[0]));
    OK(MPI_Get_address(&b, &out[1]));
    OK(MPI_Get_address(&x, &in[0]));
    OK(MPI_Get_address(&y, &in[1]));
    OK(MPI_Type_create_struct(2, lengths, out, types, &from));
    OK(MPI_Type_create_hindexed(2, lengths, in, MPI_INT, &to));
    OK(MPI_Type_commit(&from));
    OK(MPI_Type_commit(&to));
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, from, right, 0, MPI_BOTTOM, 1, to, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(x, left);
    SAME(y, left + 1);
    OK(MPI_Type_free(&from));
    OK(MPI_Type_free(&to));
}

static void large_count_forms(void)
{
    int out = t_rank, in = -1, flag;
    MPI_Count count;
    MPI_Request r[2];
    MPI_Status s;
    MPI_Message message;
    OK(MPI_Isend_c(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Recv_c(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &s));
    OK(MPI_Get_count_c(&s, MPI_INT, &count));
    SAME(count, 1);
    SAME(in, left);
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    in = -1;
    OK(MPI_Irecv_c(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Send_c(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    OK(MPI_Wait(&r[0], &s));
    SAME(in, left);
    in = -1;
    OK(MPI_Sendrecv_c(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &s));
    SAME(in, left);
    in = t_rank;
    OK(MPI_Sendrecv_replace_c(&in, 1, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD, &s));
    SAME(in, left);
    in = -1;
    OK(MPI_Isendrecv_c(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Wait(&r[0], &s));
    SAME(in, left);
    in = t_rank;
    OK(MPI_Isendrecv_replace_c(&in, 1, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Wait(&r[0], &s));
    SAME(in, left);
    OK(MPI_Issend_c(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Mprobe(left, 1, MPI_COMM_WORLD, &message, &s));
    in = -1;
    OK(MPI_Mrecv_c(&in, 1, MPI_INT, &message, &s));
    SAME(in, left);
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    OK(MPI_Send_init_c(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Recv_init_c(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r[1]));
    in = -1;
    OK(MPI_Startall(2, r));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    SAME(in, left);
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));

    /* A count above 2^31 that needs no memory: the type has no data, or is never touched. */
    MPI_Count huge = ((MPI_Count)1 << 31) + 5;
    MPI_Datatype nothing;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    OK(MPI_Irecv_c(&in, huge, nothing, left, 2, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Send_c(&out, huge, nothing, right, 2, MPI_COMM_WORLD));
    OK(MPI_Wait(&r[0], &s));
    OK(MPI_Get_count_c(&s, MPI_BYTE, &count));
    SAME(count, 0);
    OK(MPI_Type_free(&nothing));
    /* a receive that could take more than 2^31 bytes gets a short message */
    in = -1;
    OK(MPI_Irecv_c(&in, huge, MPI_INT, left, 3, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Send(&out, 1, MPI_INT, right, 3, MPI_COMM_WORLD));
    OK(MPI_Wait(&r[0], &s));
    OK(MPI_Get_count_c(&s, MPI_INT, &count));
    SAME(count, 1);
    SAME(in, left);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    sendrecv();
    in_order();
    unequal();
    nobody();
    myself();
    truncation();
    bottom();
    large_count_forms();
    return t_done("p2p_misc");
}
