/* The Wait and Test families: any, all, some; null and inactive requests; empty statuses;
 * MPI_Request_get_status and its any, all and some forms; MPI_Request_free of an active request.
 */
#include "check.h"

static void empty(const MPI_Status *status)
{
    int count = -1, cancelled = -1;
    SAME(status->MPI_SOURCE, MPI_ANY_SOURCE);
    SAME(status->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    SAME(count, 0);
    OK(MPI_Test_cancelled(status, &cancelled));
    SAME(cancelled, 0);
}

/* A mark that no status may still carry after a call has set it. */
static void spoil(MPI_Status *statuses, int n)
{
    memset(statuses, 0x77, (size_t)n * sizeof *statuses);
}

static void null_requests(void)
{
    MPI_Request null[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status s[3];
    int flag, index, count, indices[3];

    spoil(s, 3);
    OK(MPI_Wait(&null[0], &s[0]));
    empty(&s[0]);
    spoil(s, 3);
    flag = 0;
    OK(MPI_Test(&null[0], &flag, &s[0]));
    CHECK(flag);
    empty(&s[0]);
    spoil(s, 3);
    OK(MPI_Waitall(3, null, s));
    for (int i = 0; i < 3; i++)
        empty(&s[i]);
    spoil(s, 3);
    flag = 0;
    OK(MPI_Testall(3, null, &flag, s));
    CHECK(flag);
    for (int i = 0; i < 3; i++)
        empty(&s[i]);
    spoil(s, 3);
    index = 0;
    OK(MPI_Waitany(3, null, &index, &s[0]));
    SAME(index, MPI_UNDEFINED);
    empty(&s[0]);
    spoil(s, 3);
    index = 0, flag = 0;
    OK(MPI_Testany(3, null, &index, &flag, &s[0]));
    SAME(index, MPI_UNDEFINED);
    CHECK(flag);
    empty(&s[0]);
    count = 0;
    OK(MPI_Waitsome(3, null, &count, indices, s));
    SAME(count, MPI_UNDEFINED);
    count = 0;
    OK(MPI_Testsome(3, null, &count, indices, s));
    SAME(count, MPI_UNDEFINED);
    /* empty lists */
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    flag = 0;
    OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    OK(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    SAME(index, MPI_UNDEFINED);
    OK(MPI_Waitsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE));
    SAME(count, MPI_UNDEFINED);
    spoil(s, 1);
    flag = 0;
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &s[0]));
    CHECK(flag);
    empty(&s[0]);
}

static void inactive_requests(void)
{
    int words[3] = {1, 2, 3}, flag, index, count, indices[3];
    MPI_Request r[3];
    MPI_Status s[3];
    OK(MPI_Send_init(&words[0], 1, MPI_INT, t_rank, 0, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Recv_init(&words[1], 1, MPI_INT, t_rank, 0, MPI_COMM_WORLD, &r[1]));
    r[2] = MPI_REQUEST_NULL;

    spoil(s, 3);
    OK(MPI_Wait(&r[1], &s[1]));
    empty(&s[1]);
    CHECK(r[1] != MPI_REQUEST_NULL);
    OK(MPI_Test(&r[0], &flag, &s[0]));
    CHECK(flag);
    spoil(s, 3);
    OK(MPI_Waitall(3, r, s));
    for (int i = 0; i < 3; i++)
        empty(&s[i]);
    index = 0;
    OK(MPI_Waitany(3, r, &index, &s[0]));
    SAME(index, MPI_UNDEFINED);
    OK(MPI_Testany(3, r, &index, &flag, &s[0]));
    SAME(index, MPI_UNDEFINED);
    CHECK(flag);
    OK(MPI_Waitsome(3, r, &count, indices, s));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Testsome(3, r, &count, indices, s));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Request_get_status(r[1], &flag, &s[1]));
    CHECK(flag);
    empty(&s[1]);

    /* One active among inactive ones is the one that Waitany reports. */
    for (int round = 0; round < 3; round++) {
        words[0] = 100 + round;
        OK(MPI_Start(&r[1]));
        flag = 1;
        OK(MPI_Testany(3, r, &index, &flag, &s[0]));
        CHECK(!flag);
        SAME(index, MPI_UNDEFINED);
        OK(MPI_Request_get_status(r[1], &flag, &s[1]));
        CHECK(!flag);
        OK(MPI_Start(&r[0]));
        int seen = 0;
        while (seen != 3) {
            OK(MPI_Waitany(3, r, &index, &s[0]));
            CHECK(index == 0 || index == 1);
            if (index == 1) {
                SAME(s[0].MPI_SOURCE, t_rank);
                SAME(words[1], 100 + round);
            }
            seen |= 1 << index;
        }
        OK(MPI_Waitany(3, r, &index, &s[0]));
        SAME(index, MPI_UNDEFINED);
    }
    OK(MPI_Startall(2, r));
    OK(MPI_Waitall(3, r, s));
    SAME(s[1].MPI_SOURCE, t_rank);
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

/* Receives complete in the order in which the other side chooses to send. */
static void families(void)
{
    enum { N = 12 };
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size;
    int out[N], in[N], indices[N], index, flag, count;
    MPI_Request receives[N + 1], sends[N];
    MPI_Status s[N];

    for (int family = 0; family < 6; family++) {
        for (int i = 0; i < N; i++) {
            in[i] = -1;
            out[i] = t_rank * 1000 + family * 100 + i;
            OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &receives[i]));
        }
        receives[N] = MPI_REQUEST_NULL;
        /* nothing has been sent by anybody: nothing is complete */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Testall(N, receives, &flag, MPI_STATUSES_IGNORE));
        CHECK(!flag);
        OK(MPI_Testany(N, receives, &index, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        SAME(index, MPI_UNDEFINED);
        OK(MPI_Testsome(N, receives, &count, indices, MPI_STATUSES_IGNORE));
        SAME(count, 0);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = N - 1; i >= 0; i--)
            OK(MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]));

        int done = 0;
        spoil(s, N);
        switch (family) {
        case 0:
            OK(MPI_Waitall(N, receives, s));
            for (int i = 0; i < N; i++) {
                SAME(s[i].MPI_TAG, i);
                SAME(s[i].MPI_SOURCE, left);
            }
            break;
        case 1:
            do {
                OK(MPI_Testall(N, receives, &flag, s));
            } while (!flag);
            for (int i = 0; i < N; i++)
                SAME(s[i].MPI_TAG, i);
            break;
        case 2:
            for (; done < N; done++) {
                OK(MPI_Waitany(N + 1, receives, &index, &s[0]));
                CHECK(index >= 0 && index < N);
                SAME(s[0].MPI_TAG, index);
                CHECK(receives[index] == MPI_REQUEST_NULL);
                SAME(in[index], left * 1000 + family * 100 + index);
            }
            break;
        case 3:
            while (done < N) {
                OK(MPI_Testany(N + 1, receives, &index, &flag, &s[0]));
                if (!flag)
                    continue;
                CHECK(index >= 0 && index < N);
                SAME(s[0].MPI_TAG, index);
                done++;
            }
            break;
        case 4:
            while (done < N) {
                OK(MPI_Waitsome(N + 1, receives, &count, indices, s));
                CHECK(count > 0);
                for (int i = 0; i < count; i++) {
                    SAME(s[i].MPI_TAG, indices[i]);
                    CHECK(receives[indices[i]] == MPI_REQUEST_NULL);
                }
                done += count;
            }
            OK(MPI_Waitsome(N + 1, receives, &count, indices, s));
            SAME(count, MPI_UNDEFINED);
            break;
        default:
            while (done < N) {
                OK(MPI_Testsome(N + 1, receives, &count, indices, s));
                CHECK(count >= 0 && count <= N);
                for (int i = 0; i < count; i++)
                    SAME(s[i].MPI_TAG, indices[i]);
                done += count;
            }
        }
        for (int i = 0; i < N; i++) {
            SAME(in[i], left * 1000 + family * 100 + i);
            CHECK(receives[i] == MPI_REQUEST_NULL);
        }
        OK(MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            CHECK(sends[i] == MPI_REQUEST_NULL);
    }
}

static void get_status(void)
{
    enum { N = 3 };
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, word[N], out = 9, flag, index, count, indices[N];
    MPI_Request r[N], sending[N];
    MPI_Status s[N];
    for (int i = 0; i < N; i++)
        OK(MPI_Irecv(&word[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &r[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Request_get_status(r[0], &flag, &s[0]));
    CHECK(!flag);
    OK(MPI_Request_get_status_any(N, r, &index, &flag, &s[0]));
    CHECK(!flag);
    OK(MPI_Request_get_status_all(N, r, &flag, s));
    CHECK(!flag);
    OK(MPI_Request_get_status_some(N, r, &count, indices, s));
    SAME(count, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < N; i++)
        OK(MPI_Isend(&out, 1, MPI_INT, right, i, MPI_COMM_WORLD, &sending[i]));
    do {
        OK(MPI_Request_get_status_all(N, r, &flag, s));
    } while (!flag);
    for (int i = 0; i < N; i++) {
        SAME(s[i].MPI_TAG, i);
        CHECK(r[i] != MPI_REQUEST_NULL);
    }
    flag = 0;
    OK(MPI_Request_get_status_any(N, r, &index, &flag, &s[0]));
    CHECK(flag && index >= 0 && index < N);
    SAME(s[0].MPI_TAG, index);
    OK(MPI_Request_get_status_some(N, r, &count, indices, s));
    SAME(count, N);
    for (int i = 0; i < N; i++)
        SAME(s[i].MPI_TAG, indices[i]);
    OK(MPI_Request_get_status(r[1], &flag, &s[1]));
    CHECK(flag);
    SAME(s[1].MPI_SOURCE, left);
    SAME(s[1].MPI_TAG, 1);
    /* still ours to complete */
    spoil(s, N);
    OK(MPI_Waitall(N, r, s));
    SAME(s[1].MPI_TAG, 1);
    OK(MPI_Waitall(N, sending, MPI_STATUSES_IGNORE));
}

static void freed_while_active(void)
{
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size, got = 0;
    static int out = 77;
    MPI_Request r;
    OK(MPI_Isend(&out, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    OK(MPI_Recv(&got, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, 77);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void status_functions(void)
{
    MPI_Status status;
    int value, elements;
    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements(&status, MPI_INT, 5));
    OK(MPI_Status_set_cancelled(&status, 0));
    OK(MPI_Get_count(&status, MPI_INT, &value));
    SAME(value, 5);
    OK(MPI_Get_elements(&status, MPI_INT, &elements));
    SAME(elements, 5);
    OK(MPI_Get_count(&status, MPI_BYTE, &value));
    SAME(value, 20);
    OK(MPI_Status_set_cancelled(&status, 1));
    OK(MPI_Test_cancelled(&status, &value));
    CHECK(value);
    OK(MPI_Get_count(&status, MPI_INT, &value)); /* the two do not disturb each other */
    SAME(value, 5);
    MPI_Count many = (MPI_Count)5 << 31, got;
    OK(MPI_Status_set_elements_c(&status, MPI_BYTE, many));
    OK(MPI_Get_elements_c(&status, MPI_BYTE, &got));
    SAME(got, many);
    OK(MPI_Get_count_c(&status, MPI_BYTE, &got));
    SAME(got, many);
    OK(MPI_Get_count(&status, MPI_BYTE, &value));
    SAME(value, MPI_UNDEFINED);
    OK(MPI_Status_set_source(&status, 3));
    OK(MPI_Status_set_tag(&status, 4));
    OK(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE));
    SAME(status.MPI_SOURCE, 3);
    SAME(status.MPI_TAG, 4);
    SAME(status.MPI_ERROR, MPI_ERR_TRUNCATE);
    OK(MPI_Status_get_source(&status, &value));
    SAME(value, 3);
    OK(MPI_Status_get_tag(&status, &value));
    SAME(value, 4);
    OK(MPI_Status_get_error(&status, &value));
    SAME(value, MPI_ERR_TRUNCATE);
    /* a count that is no whole number of types */
    OK(MPI_Status_set_elements(&status, MPI_BYTE, 7));
    OK(MPI_Get_count(&status, MPI_INT, &value));
    SAME(value, MPI_UNDEFINED);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    null_requests();
    inactive_requests();
    families();
    get_status();
    freed_while_active();
    status_functions();
    return t_done("p2p_complete");
}
