/* Messages of derived types of many lengths, whichever way they go: data that are one run (also from elsewhere than the buffer's start), and
 * data with gaps; waited for, or there before; on a communicator that was used and on one that was not. What is wrong is found.
 */
#include "check.h"

enum { BASE = 16, MOST = 10000, ROOM = BASE + 3 * MOST + 8, MANY = 3000 };

/* How the elements of a message lie in memory. */
enum { PLAIN, SHIFTED, SPACED, BACKWARDS, ABSOLUTE, FORMS };

static const int counts[] = {0, 1, 2, 12, 13, 40, 128, 129, 500, 513, MOST};

static int out[ROOM], in[ROOM];
static int right, left;

/* Where element i lies. */
static int place(int form, int i, int count)
{
    switch (form) {
    case SHIFTED:
        return BASE + 5 + i;
    case SPACED:
        return BASE + 3 * i;
    case BACKWARDS:
        return BASE + count - i;
    default:
        return BASE + i;
    }
}

/* The buffer argument for elements in `memory`. */
static void *buffer(int form, int *memory, int count)
{
    if (form == ABSOLUTE)
        return MPI_BOTTOM;
    return memory + BASE + (form == BACKWARDS ? count : 0);
}

static MPI_Datatype make(int form, int *memory, int count)
{
    static const int five = 5;
    MPI_Aint address;
    MPI_Datatype type;
    switch (form) {
    case SHIFTED:
        OK(MPI_Type_create_indexed_block(1, count, &five, MPI_INT, &type));
        break;
    case SPACED:
        OK(MPI_Type_vector(count, 1, 3, MPI_INT, &type));
        break;
    case BACKWARDS:
        OK(MPI_Type_vector(count, 1, -1, MPI_INT, &type));
        break;
    case ABSOLUTE:
        OK(MPI_Get_address(memory + BASE, &address));
        OK(MPI_Type_create_hindexed_block(1, count, &address, MPI_INT, &type));
        break;
    default:
        OK(MPI_Type_contiguous(count, MPI_INT, &type));
    }
    OK(MPI_Type_commit(&type));
    return type;
}

/* Checks that the first `got` elements came and nothing else was touched. */
static void arrived(int form, int count, int got, int seed, const MPI_Status *status, MPI_Datatype type)
{
    int elements, whole;
    SAME(status->MPI_SOURCE, left);
    SAME(status->MPI_TAG, 3);
    OK(MPI_Get_elements(status, type, &elements));
    SAME(elements, got);
    OK(MPI_Get_count(status, type, &whole));
    SAME(whole, got == 0 ? 0 : got < count ? MPI_UNDEFINED : 1);
    for (int i = 0; i < got; i++) {
        SAME(in[place(form, i, count)], seed + i);
        in[place(form, i, count)] = -1;
    }
    for (int i = 0; i < BASE + 3 * count + 8; i++)
        SAME(in[i], -1);
}

/* One message from each rank to the next; `sent` of the receiver's `count` elements. */
static void message(MPI_Comm comm, int from, int to, int count, int sent, int way)
{
    int seed = t_rank * 100000 + sent, wild = way % 2;
    MPI_Datatype send = make(from, out, sent), receive = make(to, in, count), copy;
    MPI_Request request;
    MPI_Status status;
    void *at = buffer(to, in, count);
    int source = wild ? MPI_ANY_SOURCE : left, tag = wild ? MPI_ANY_TAG : 3;
    for (int i = 0; i < sent; i++)
        out[place(from, i, sent)] = seed + i;
    OK(MPI_Type_dup(receive, &copy));
    if (way < 2) {
        OK(MPI_Irecv(at, 1, receive, source, tag, comm, &request));
        OK(MPI_Type_free(&receive));
        OK(MPI_Send(buffer(from, out, sent), 1, send, right, 3, comm));
        OK(MPI_Wait(&request, &status));
    } else {
        OK(MPI_Isend(buffer(from, out, sent), 1, send, right, 3, comm, &request));
        if (way > 3)
            OK(MPI_Probe(source, tag, comm, &status));
        OK(MPI_Recv(at, 1, receive, source, tag, comm, &status));
        OK(MPI_Type_free(&receive));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    arrived(to, count, sent, left * 100000 + sent, &status, copy);
    OK(MPI_Type_free(&copy));
    OK(MPI_Type_free(&send));
}

/* So many short messages that the rings are full now and then, and that each has its turn to make progress. */
static void many(MPI_Comm comm)
{
    MPI_Datatype spaced = make(SPACED, out, 2), plain = make(PLAIN, out, 2);
    for (int i = 0; i < MANY; i++) {
        int mine[] = {i, -1, -1, i + 1}, got[] = {-1, -1, -1, -1};
        MPI_Datatype type = i % 3 ? spaced : plain;
        MPI_Request request;
        OK(MPI_Isend(mine, 1, type, right, i % 5, comm, &request));
        OK(MPI_Recv(got, 1, type, left, i % 5, comm, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(memcmp(mine, got, type == spaced ? sizeof got : sizeof *got), 0);
    }
    for (int i = 0; i < MANY && t_rank == 0 && t_size > 1; i++)
        OK(MPI_Send(&i, 1, i % 2 ? spaced : plain, t_size - 1, 4, comm));
    for (int i = 0; i < MANY && t_rank == t_size - 1 && t_size > 1; i++) {
        int got[4];
        OK(MPI_Recv(got, 1, i % 2 ? spaced : plain, 0, 4, comm, MPI_STATUS_IGNORE));
        SAME(got[0], i);
    }
    OK(MPI_Type_free(&spaced));
    OK(MPI_Type_free(&plain));
}

static void wrong(MPI_Comm comm)
{
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int form = 0; form < FORMS; form++) {
        MPI_Datatype type = make(form, in, 12), fresh;
        MPI_Request request;
        MPI_Status status;
        void *at = buffer(form, in, 12);
        OK(MPI_Type_contiguous(1, type, &fresh));
        FAILS(MPI_Send(at, 1, fresh, right, 3, comm), MPI_ERR_TYPE);
        FAILS(MPI_Recv(at, 1, fresh, left, 3, comm, &status), MPI_ERR_TYPE);
        FAILS(MPI_Send(at, -1, type, right, 3, comm), MPI_ERR_COUNT);
        FAILS(MPI_Recv(at, -1, type, left, 3, comm, &status), MPI_ERR_COUNT);
        FAILS(MPI_Send(at, 1, type, right, -5, comm), MPI_ERR_TAG);
        FAILS(MPI_Recv(at, 1, type, left, -77, comm, &status), MPI_ERR_TAG);
        FAILS(MPI_Send(at, 1, type, t_size, 3, comm), MPI_ERR_RANK);
        FAILS(MPI_Recv(at, 1, type, t_size, 3, comm, &status), MPI_ERR_RANK);
        OK(MPI_Isend(out, 13, MPI_INT, right, 3, comm, &request));
        FAILS(MPI_Recv(at, 1, type, left, 3, comm, &status), MPI_ERR_TRUNCATE);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Type_free(&fresh));
        OK(MPI_Type_free(&type));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm other;
    t_init(&argc, &argv);
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    memset(in, 0xff, sizeof in);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int from = 0; from < FORMS; from++)
            for (int to = 0; to < FORMS; to++)
                for (int way = 0; way < 6; way++) {
                    message(way % 3 ? MPI_COMM_WORLD : other, from, to, counts[i], counts[i], way);
                    message(MPI_COMM_WORLD, from, to, counts[i], counts[i] / 2, way);
                }
    /* Rank 0 may not run ahead with wildcards. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    many(MPI_COMM_WORLD);
    wrong(other);
    OK(MPI_Comm_free(&other));
    return t_done("p2p_derived");
}
