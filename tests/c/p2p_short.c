/* Short messages, whichever way each call of theirs goes: receives posted one by one among wildcards, probes, cancels and
 * long messages, on several communicators; errors; requests freed and asked after.  With the argument "multiple" threads
 * are asked for.
 */
#include "check.h"
#include <limits.h>
#include <time.h>

enum { MANY = 100 };

static int right, left;

/* Receives of all kinds, posted in turn; messages with one tag come in the order of posting. */
static void order(MPI_Comm comm)
{
    static int in[MANY], out[MANY];
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    int size, rank;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int kind = 0; kind < 6; kind++) {
        for (int i = 0; i < MANY; i++) {
            int wild = kind > 0 && i % (kind + 1) == 0, any = kind > 2 && i % 3 == 0;
            in[i] = -1;
            out[i] = rank * 1000 + i;
            OK(MPI_Irecv(&in[i], 1, MPI_INT, wild ? MPI_ANY_SOURCE : from, any ? MPI_ANY_TAG : 7, comm, &requests[i]));
        }
        OK(MPI_Barrier(comm));
        for (int i = 0; i < MANY; i++)
            OK(MPI_Send(&out[i], 1, MPI_INT, to, 7, comm));
        if (kind % 2)
            OK(MPI_Waitall(MANY, requests, statuses));
        for (int i = 0; i < MANY; i++) {
            if (kind % 2 == 0)
                OK(MPI_Wait(&requests[i], &statuses[i]));
            int count;
            OK(MPI_Get_count(&statuses[i], MPI_INT, &count));
            SAME(count, 1);
            SAME(in[i], from * 1000 + i);
            SAME(statuses[i].MPI_SOURCE, from);
            SAME(statuses[i].MPI_TAG, 7);
            CHECK(requests[i] == MPI_REQUEST_NULL);
        }
        OK(MPI_Barrier(comm));
    }
}

/* Tags in reverse, more than a short list holds, and lengths that go every way. */
static void reversed(void)
{
    static const int lengths[] = {4, 0, 48, 49, 2048, 100000, 8, 40000};
    static char in[MANY][1000], out[100000];
    static char large[2][100000];
    MPI_Request requests[MANY];
    MPI_Status status;
    for (int i = 0; i < MANY; i++)
        OK(MPI_Irecv(in[i], 1000, MPI_CHAR, left, i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = MANY - 1; i >= 0; i--) {
        memset(out, i, 1000);
        OK(MPI_Send(out, i * 10, MPI_CHAR, right, i, MPI_COMM_WORLD));
    }
    for (int i = 0; i < MANY; i++) {
        int count;
        OK(MPI_Wait(&requests[i], &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        SAME(count, i * 10);
        SAME(status.MPI_TAG, i);
        CHECK(i == 0 || (in[i][0] == i && in[i][i * 10 - 1] == i));
    }
    for (int i = 0; i < 8; i++)
        for (int synchronous = 0; synchronous < 2; synchronous++) {
            MPI_Request pair[2], sending;
            int counts[2];
            for (int k = 0; k < 2; k++)
                OK(MPI_Irecv(large[k], 100000, MPI_CHAR, left, 3, MPI_COMM_WORLD, &pair[k]));
            memset(out, 'a' + i, sizeof out);
            OK(synchronous ? MPI_Issend(out, lengths[i], MPI_CHAR, right, 3, MPI_COMM_WORLD, &sending)
                           : MPI_Isend(out, lengths[i], MPI_CHAR, right, 3, MPI_COMM_WORLD, &sending));
            OK(MPI_Send(out, 5, MPI_CHAR, right, 3, MPI_COMM_WORLD));
            OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
            for (int k = 0; k < 2; k++) {
                OK(MPI_Wait(&pair[k], &status));
                OK(MPI_Get_count(&status, MPI_CHAR, &counts[k]));
            }
            SAME(counts[0], lengths[i]);
            SAME(counts[1], 5);
            CHECK(lengths[i] == 0 || large[0][lengths[i] - 1] == 'a' + i);
        }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A message that nobody expected goes before a later receive, and a posted receive before a probe. */
static void unexpected(void)
{
    int a = -1, b = -1, flag, one = 1, two = 2;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Send(&one, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    OK(MPI_Send(&two, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
    OK(MPI_Probe(left, 2, MPI_COMM_WORLD, &status));
    OK(MPI_Irecv(&a, 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    SAME(a, 1);
    SAME(status.MPI_TAG, 1);
    OK(MPI_Irecv(&b, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &request));
    do
        OK(MPI_Test(&request, &flag, &status));
    while (!flag);
    SAME(b, 2);
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Irecv(&a, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&one, 1, MPI_INT, right, 5, MPI_COMM_WORLD));
    OK(MPI_Send(&two, 1, MPI_INT, right, 5, MPI_COMM_WORLD));
    OK(MPI_Probe(left, 5, MPI_COMM_WORLD, &status));
    /* The second is what the probe sees and this takes; the first has its receive. */
    OK(MPI_Recv(&b, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &status));
    SAME(b, 2);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(a, 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    handled++;
}

/* What is wrong is found, and told on the communicator of the receive. */
static void wrong(void)
{
    int in[2] = {-1, -1}, out[2] = {1, 2}, result;
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    MPI_Comm comm;
    MPI_Errhandler errors;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(handler, &errors));
    OK(MPI_Comm_set_errhandler(comm, errors));
    OK(MPI_Errhandler_free(&errors));
    for (int round = 0; round < 2; round++) {
        handled = 0;
        FAILS(MPI_Irecv(in, -1, MPI_INT, left, 0, comm, &request), MPI_ERR_COUNT);
        FAILS(MPI_Irecv(NULL, 1, MPI_INT, left, 0, comm, &request), MPI_ERR_BUFFER);
        FAILS(MPI_Irecv(in, 1, MPI_DATATYPE_NULL, left, 0, comm, &request), MPI_ERR_TYPE);
        FAILS(MPI_Irecv(in, 1, MPI_INT, t_size, 0, comm, &request), MPI_ERR_RANK);
        FAILS(MPI_Irecv(in, 1, MPI_INT, left, -77, comm, &request), MPI_ERR_TAG);
        FAILS(MPI_Isend(out, -1, MPI_INT, right, 0, comm, &request), MPI_ERR_COUNT);
        FAILS(MPI_Isend(NULL, 1, MPI_INT, right, 0, comm, &request), MPI_ERR_BUFFER);
        FAILS(MPI_Isend(out, 1, MPI_DATATYPE_NULL, right, 0, comm, &request), MPI_ERR_TYPE);
        FAILS(MPI_Isend(out, 1, MPI_INT, t_size, 0, comm, &request), MPI_ERR_RANK);
        FAILS(MPI_Isend(out, 1, MPI_INT, right, MPI_ANY_TAG, comm, &request), MPI_ERR_TAG);
        SAME(handled, 10);
        /* The second time round the communicator is one that is known. */
        OK(MPI_Irecv(in, 1, MPI_INT, left, 0, comm, &request));
        OK(MPI_Send(out, 1, MPI_INT, right, 0, comm));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    handled = 0;
    OK(MPI_Irecv(in, 1, MPI_INT, left, 0, comm, &request));
    OK(MPI_Send(out, 2, MPI_INT, right, 0, comm));
    FAILS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
    SAME(handled, 1);
    SAME(status.MPI_SOURCE, left);
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Irecv(in, 1, MPI_INT, left, 0, comm, &requests[0]));
    OK(MPI_Irecv(in + 1, 1, MPI_INT, left, 1, comm, &requests[1]));
    OK(MPI_Send(out, 2, MPI_INT, right, 0, comm));
    OK(MPI_Send(out, 1, MPI_INT, right, 1, comm));
    result = MPI_Waitall(2, requests, statuses);
    SAME(t_class(result), MPI_ERR_IN_STATUS);
    SAME(t_class(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    SAME(statuses[1].MPI_ERROR, MPI_SUCCESS);
    SAME(handled, 2);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What is no tag finds no message, also not one that is there and next. */
static void no_tag(void)
{
    static const int bad[] = {-1, -2, -3, -4, -30, INT_MIN};
    const struct timespec moment = {0, 50000000};
    int in = -1, out[3] = {1, 2, 3};
    MPI_Comm comm;
    MPI_Status status;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 3; i++)
        OK(MPI_Send(&out[i], 1, MPI_INT, right, i, comm));
    nanosleep(&moment, NULL);
    /* This may take the first alone: the second stays where it came in. */
    OK(MPI_Recv(&in, 1, MPI_INT, left, 0, comm, &status));
    SAME(in, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bad[i] != MPI_ANY_TAG)
            FAILS(MPI_Recv(&in, 1, MPI_INT, left, bad[i], comm, &status), MPI_ERR_TAG);
    OK(MPI_Recv(&in, 1, MPI_INT, left, MPI_ANY_TAG, comm, &status));
    SAME(in, 2);
    SAME(status.MPI_TAG, 1);
    OK(MPI_Recv(&in, 1, MPI_INT, left, MPI_ANY_TAG, comm, &status));
    SAME(in, 3);
    SAME(status.MPI_TAG, 2);
    OK(MPI_Comm_free(&comm));
}

/* A handle that was given back names nothing, and a request that is another's address is none. */
static void stale(void)
{
    int word = 3, in = 0, flag;
    MPI_Request request, kept;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Irecv(&in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &request));
    kept = request;
    OK(MPI_Send(&word, 1, MPI_INT, right, 0, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    FAILS(MPI_Wait(&kept, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Test(&kept, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    request = MPI_REQUEST_NULL;
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Receives cancelled, freed, asked after; communicators freed under them. */
static void ends(void)
{
    int in[4] = {-1, -1, -1, -1}, out[4] = {10, 11, 12, 13}, flag, index;
    MPI_Request requests[3];
    MPI_Status status;
    MPI_Comm comm;
    for (int i = 0; i < 3; i++)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left, 4, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Cancel(&requests[1]));
    OK(MPI_Wait(&requests[1], &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Request_get_status(requests[0], &flag, &status));
    CHECK(!flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&out[0], 1, MPI_INT, right, 4, MPI_COMM_WORLD));
    OK(MPI_Send(&out[1], 1, MPI_INT, right, 4, MPI_COMM_WORLD));
    do
        OK(MPI_Request_get_status(requests[2], &flag, &status));
    while (!flag);
    SAME(status.MPI_SOURCE, left);
    SAME(in[0], 10);
    SAME(in[1], -1);
    SAME(in[2], 11);
    OK(MPI_Waitany(3, requests, &index, &status));
    SAME(index, 0);
    OK(MPI_Testany(3, requests, &index, &flag, &status));
    CHECK(flag && index == 2);
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* Nobody waits for the first; the second goes on without its communicator's handle. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&in[3], 1, MPI_INT, left, 4, comm, &requests[0]));
    OK(MPI_Irecv(&in[1], 1, MPI_INT, left, 4, comm, &requests[1]));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&out[3], 1, MPI_INT, right, 4, comm));
    OK(MPI_Send(&out[2], 1, MPI_INT, right, 4, comm));
    OK(MPI_Comm_free(&comm));
    /* These are not in its way. */
    for (int i = 0; i < 20; i++) {
        MPI_Comm other;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        OK(MPI_Sendrecv(&out[0], 1, MPI_INT, right, 4, &in[2], 1, MPI_INT, left, 4, other, MPI_STATUS_IGNORE));
        SAME(in[2], 10);
        OK(MPI_Comm_free(&other));
    }
    OK(MPI_Wait(&requests[1], &status));
    SAME(status.MPI_SOURCE, left);
    SAME(in[1], 12);
    SAME(in[3], 13);

    /* A receive and its communicator, which is disconnected when it is over. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&in[0], 1, MPI_INT, left, 4, comm, &requests[0]));
    OK(MPI_Send(&out[1], 1, MPI_INT, right, 4, comm));
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    SAME(in[0], 11);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Communicators in turn: one is known at a time. */
static void turns(void)
{
    MPI_Comm comms[4];
    MPI_Request requests[8];
    int in[8], size, rank;
    comms[0] = MPI_COMM_WORLD;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &comms[2]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % 2, 0, &comms[3]));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 8; i++) {
            OK(MPI_Comm_size(comms[i % 4], &size));
            OK(MPI_Comm_rank(comms[i % 4], &rank));
            OK(MPI_Irecv(&in[i], 1, MPI_INT, (rank + size - 1) % size, 9, comms[i % 4], &requests[i]));
        }
        for (int i = 0; i < 8; i++) {
            OK(MPI_Comm_size(comms[i % 4], &size));
            OK(MPI_Comm_rank(comms[i % 4], &rank));
            int word = round * 10000 + rank * 100 + i;
            OK(MPI_Send(&word, 1, MPI_INT, (rank + 1) % size, 9, comms[i % 4]));
        }
        OK(MPI_Waitall(8, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 8; i++) {
            OK(MPI_Comm_size(comms[i % 4], &size));
            OK(MPI_Comm_rank(comms[i % 4], &rank));
            SAME(in[i], round * 10000 + (rank + size - 1) % size * 100 + i);
        }
    }
    for (int i = 1; i < 4; i++) {
        order(comms[i]);
        OK(MPI_Comm_free(&comms[i]));
    }
}

/* More than a ring holds, to one that does not look yet; what is sent at once must not overtake what waits. */
static void full(void)
{
    enum { N = 3000 };
    static int out[N], in[N];
    static MPI_Request requests[2 * N];
    for (int i = 0; i < N; i++) {
        out[i] = i;
        OK(MPI_Isend(&out[i], i % 7 == 6 ? 0 : 1, MPI_INT, right, 6, MPI_COMM_WORLD, &requests[N + i]));
    }
    for (int i = 0; i < N; i++)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left, 6, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        SAME(in[i], i % 7 == 6 ? 0 : i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Many receives whose messages come in no order of theirs, each for the first that accepts it. */
static void disorder(void)
{
    enum { N = 300 };
    static int in[N], tags[N], want[N];
    MPI_Request requests[N];
    MPI_Status statuses[N];
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < N; i++) {
            tags[i] = kind % 2 && i % 23 == 22 ? MPI_ANY_TAG : i * 7 % 100;
            int wild = kind > 1 && i % 50 == 40;
            in[i] = want[i] = -1;
            OK(MPI_Irecv(&in[i], 1, MPI_INT, wild ? MPI_ANY_SOURCE : left, tags[i], MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int number = 0; number < N; number++) {
            /* Of those that are left the last but some. */
            int last = N - 1, skip = number % 5;
            while (want[last] >= 0 || (last > 0 && skip-- > 0))
                last = (last + N - 1) % N;
            int tag = tags[last] == MPI_ANY_TAG ? 1000 : tags[last], first = 0;
            while (want[first] >= 0 || (tags[first] != tag && tags[first] != MPI_ANY_TAG))
                first++;
            want[first] = 1000 * tag + number;
            OK(MPI_Send(&want[first], 1, MPI_INT, right, tag, MPI_COMM_WORLD));
        }
        OK(MPI_Waitall(N, requests, statuses));
        for (int i = 0; i < N; i++) {
            SAME(in[i], want[i]);
            SAME(statuses[i].MPI_TAG, want[i] / 1000);
            SAME(statuses[i].MPI_SOURCE, left);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

static void check_status(const MPI_Status *status, int source, int tag, int length)
{
    int count, cancelled;
    OK(MPI_Get_count(status, MPI_INT, &count));
    OK(MPI_Test_cancelled(status, &cancelled));
    SAME(status->MPI_SOURCE, source);
    SAME(status->MPI_TAG, tag);
    SAME(count, length);
    SAME(cancelled, 0);
}

/* Requests of all kinds in one array: null, sends that are over, receives that are or are not, some that go another way. */
static void several(void)
{
    enum { N = 7, CALLS = 6 };
    for (int round = 0; round < 4 * CALLS; round++) {
        int in[N] = {0}, out[N], indices[N], seen[N] = {0}, call = round % CALLS, wild = round / CALLS % 2, gone = 0;
        int late = round / CALLS / 2 ? 0 : 3, pending = N;
        MPI_Request r[N];
        MPI_Status s[N];
        memset(s, 0x77, sizeof s);
        for (int i = 0; i < N; i++) {
            out[i] = 100 * t_rank + i;
            r[i] = MPI_REQUEST_NULL;
            if (i % 3 == 0)
                OK(MPI_Irecv(&in[i], 1, MPI_INT, wild && i == 3 ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD, &r[i]));
            else if (i % 3 == 1)
                OK(MPI_Isend(&out[i - 1], 1, MPI_INT, right, i - 1, MPI_COMM_WORLD, &r[i]));
        }
        /* The last receive's message comes when others are long over. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        t_sleep_ms(t_rank % 2 * late);
        OK(MPI_Send(&out[6], 1, MPI_INT, right, 6, MPI_COMM_WORLD));
        pending = 5;
        while (pending > 0) {
            int count = N, index = 0, flag = 1;
            switch (call) {
            case 0:
                OK(MPI_Waitall(N, r, s));
                break;
            case 1:
                OK(MPI_Testall(N, r, &flag, s));
                break;
            case 2:
                OK(MPI_Waitany(N, r, &index, s));
                break;
            case 3:
                OK(MPI_Testany(N, r, &index, &flag, s));
                break;
            case 4:
                OK(MPI_Waitsome(N, r, &count, indices, s));
                CHECK(count > 0);
                break;
            default:
                OK(MPI_Testsome(N, r, &count, indices, s));
            }
            if (!flag)
                continue;
            if (call == 2 || call == 3)
                count = 1, indices[0] = index;
            for (int k = 0; k < count; k++) {
                int i = call < 2 ? k : indices[k];
                CHECK(i >= 0 && i < N && !seen[i]++ && r[i] == MPI_REQUEST_NULL);
                if (i % 3 == 0) {
                    check_status(&s[k], left, i, 1);
                    SAME(in[i], 100 * left + i);
                } else if (i % 3 == 2) {
                    check_status(&s[k], MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
                }
                gone += i % 3 != 2;
            }
            pending = 5 - gone;
        }
        OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* One of several is wrong: no handle, there twice, or its message too long. */
static void several_wrong(void)
{
    int in[3], out[2] = {1, 2}, index, count, flag, indices[3];
    MPI_Request r[3], kept;
    MPI_Status s[3];
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Isend(out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Irecv(in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &kept));
    r[1] = r[2] = kept;
    OK(MPI_Send(out, 1, MPI_INT, right, 0, MPI_COMM_WORLD));
    OK(MPI_Wait(&r[2], MPI_STATUS_IGNORE));
    FAILS(MPI_Waitall(3, r, s), MPI_ERR_REQUEST);
    FAILS(MPI_Testall(3, r, &flag, s), MPI_ERR_REQUEST);
    FAILS(MPI_Waitany(3, r, &index, s), MPI_ERR_REQUEST);
    FAILS(MPI_Testany(3, r, &index, &flag, s), MPI_ERR_REQUEST);
    FAILS(MPI_Waitsome(3, r, &count, indices, s), MPI_ERR_REQUEST);
    FAILS(MPI_Testsome(3, r, &count, indices, s), MPI_ERR_REQUEST);
    CHECK(r[0] != MPI_REQUEST_NULL && r[1] == kept);
    FAILS(MPI_Waitall(-1, r, s), MPI_ERR_COUNT);
    OK(MPI_Recv(in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, s));
    OK(MPI_Wait(&r[0], s));

    OK(MPI_Irecv(in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &r[0]));
    r[1] = r[0];
    OK(MPI_Send(out, 1, MPI_INT, right, 0, MPI_COMM_WORLD));
    CHECK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    CHECK(r[0] == MPI_REQUEST_NULL);
    SAME(in[0], 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);

    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int call = 0; call < 4; call++) {
        int result;
        for (int i = 0; i < 3; i++)
            OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &r[i]));
        OK(MPI_Barrier(comm));
        for (int i = 0; i < 3; i++)
            OK(MPI_Send(out, i == 1 ? 2 : 1, MPI_INT, right, i, comm));
        if (call == 0) {
            result = MPI_Waitall(3, r, s);
        } else if (call == 1) {
            do
                result = MPI_Testall(3, r, &flag, s);
            while (result == MPI_SUCCESS && !flag);
        } else {
            /* The last one's message comes last. */
            do
                OK(MPI_Request_get_status(r[2], &flag, s));
            while (!flag);
            result = call == 2 ? MPI_Waitsome(3, r, &count, indices, s) : MPI_Testsome(3, r, &count, indices, s);
            SAME(count, 3);
        }
        SAME(t_class(result), MPI_ERR_IN_STATUS);
        for (int i = 0; i < 3; i++) {
            SAME(t_class(s[i].MPI_ERROR), i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
            CHECK(r[i] == MPI_REQUEST_NULL);
        }
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int level;
    OK(MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    order(MPI_COMM_WORLD);
    reversed();
    unexpected();
    wrong();
    no_tag();
    stale();
    ends();
    turns();
    full();
    disorder();
    several();
    several_wrong();
    order(MPI_COMM_WORLD);
    return t_done("p2p_short");
}
