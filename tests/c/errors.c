/* Bad input: each wrong argument is answered with the right error class under MPI_ERRORS_RETURN, and
 * the library goes on working.
 *
 * Argument: fatal  - do one of them under MPI_ERRORS_ARE_FATAL instead; the job has to end with a
 *           sentence that names the call and the argument, which whoever runs the test looks for.
 */
#include "check.h"

/* Something else in the place of a handle, in either ABI (pointers or ints). */
#define AS(type, what) ((type)(uintptr_t)(what))

static int word, words[8];
static MPI_Request r;
static MPI_Status s;

static void handles(void)
{
    MPI_Datatype type;
    MPI_Comm comm;
    MPI_Group group;
    int n, flag;
    FAILS(MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    FAILS(MPI_Comm_rank(AS(MPI_Comm, MPI_INT), &n), MPI_ERR_COMM); /* a handle of another kind */
    FAILS(MPI_Comm_rank(AS(MPI_Comm, 0x3f0), &n), MPI_ERR_COMM);
    FAILS(MPI_Comm_rank(AS(MPI_Comm, &word), &n), MPI_ERR_COMM); /* not ours at all */
    FAILS(MPI_Comm_rank(AS(MPI_Comm, 0), &n), MPI_ERR_COMM);
    FAILS(MPI_Comm_free(&(MPI_Comm){MPI_COMM_NULL}), MPI_ERR_COMM);
    CHECK(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}) != MPI_SUCCESS);
    FAILS(MPI_Send(&word, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    FAILS(MPI_Send(&word, 1, AS(MPI_Datatype, MPI_COMM_WORLD), 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    FAILS(MPI_Type_size(AS(MPI_Datatype, &word), &n), MPI_ERR_TYPE);
    FAILS(MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL}), MPI_ERR_TYPE);
    CHECK(MPI_Type_free(&(MPI_Datatype){MPI_INT}) != MPI_SUCCESS);
    FAILS(MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP);
    FAILS(MPI_Group_size(AS(MPI_Group, MPI_COMM_WORLD), &n), MPI_ERR_GROUP);
    FAILS(MPI_Wait(&(MPI_Request){AS(MPI_Request, MPI_INT)}, &s), MPI_ERR_REQUEST);
    FAILS(MPI_Test(&(MPI_Request){AS(MPI_Request, &word)}, &flag, &s), MPI_ERR_REQUEST);
    FAILS(MPI_Start(&(MPI_Request){MPI_REQUEST_NULL}), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&(MPI_Request){MPI_REQUEST_NULL}), MPI_ERR_REQUEST);
    FAILS(MPI_Allreduce(&word, &words[0], 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&word, &words[0], 1, MPI_INT, AS(MPI_Op, MPI_INT), MPI_COMM_WORLD), MPI_ERR_OP);
    FAILS(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    FAILS(MPI_Info_get_nkeys(MPI_INFO_NULL, &n), MPI_ERR_INFO);
    FAILS(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &n, &flag), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm), MPI_ERR_GROUP);
    FAILS(MPI_Group_incl(MPI_GROUP_EMPTY, 1, (int[]){0}, &group), MPI_ERR_RANK);
    FAILS(MPI_Type_contiguous(3, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    FAILS(MPI_Mrecv(&word, 1, MPI_INT, &(MPI_Message){MPI_MESSAGE_NULL}, &s), MPI_ERR_REQUEST);
}

static void arguments(void)
{
    MPI_Datatype type;
    MPI_Comm comm;
    int flag;
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Irecv(&word, -3, MPI_INT, 0, 0, MPI_COMM_WORLD, &r), MPI_ERR_COUNT);
    FAILS(MPI_Bcast(&word, -1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Send_c(&word, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Send(&word, 1, MPI_INT, t_size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    FAILS(MPI_Send(&word, 1, MPI_INT, -9, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    FAILS(MPI_Send(&word, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    FAILS(MPI_Isend(&word, 1, MPI_INT, 1 << 30, 0, MPI_COMM_WORLD, &r), MPI_ERR_RANK);
    FAILS(MPI_Recv(&word, 1, MPI_INT, t_size, 0, MPI_COMM_WORLD, &s), MPI_ERR_RANK);
    FAILS(MPI_Probe(-20, 0, MPI_COMM_WORLD, &s), MPI_ERR_RANK);
    FAILS(MPI_Iprobe(t_size, 0, MPI_COMM_WORLD, &flag, &s), MPI_ERR_RANK);
    FAILS(MPI_Send(&word, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), MPI_ERR_TAG);
    FAILS(MPI_Send(&word, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG);
    FAILS(MPI_Recv(&word, 1, MPI_INT, 0, -77, MPI_COMM_WORLD, &s), MPI_ERR_TAG);
    FAILS(MPI_Bcast(&word, 1, MPI_INT, t_size, MPI_COMM_WORLD), MPI_ERR_ROOT);
    FAILS(MPI_Reduce(&word, &words[0], 1, MPI_INT, MPI_SUM, -1, MPI_COMM_WORLD), MPI_ERR_ROOT);
    FAILS(MPI_Gather(&word, 1, MPI_INT, words, 1, MPI_INT, t_size + 3, MPI_COMM_WORLD), MPI_ERR_ROOT);
    FAILS(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    FAILS(MPI_Recv(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &s), MPI_ERR_BUFFER);
    FAILS(MPI_Isend(NULL, 4, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &r), MPI_ERR_BUFFER);
    FAILS(MPI_Bcast(NULL, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    FAILS(MPI_Allreduce(&word, &word, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER); /* aliased */

    OK(MPI_Type_contiguous(3, MPI_INT, &type)); /* not committed */
    FAILS(MPI_Send(words, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    FAILS(MPI_Irecv(words, 1, type, 0, 0, MPI_COMM_WORLD, &r), MPI_ERR_TYPE);
    FAILS(MPI_Bcast(words, 1, type, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    OK(MPI_Type_free(&type));
    FAILS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    CHECK(MPI_Type_vector(2, -1, 1, MPI_INT, &type) != MPI_SUCCESS);

    FAILS(MPI_Allreduce(words, &words[4], 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP); /* not defined for it */
    FAILS(MPI_Allreduce(words, &words[4], 1, MPI_INT, MPI_MAXLOC, MPI_COMM_WORLD), MPI_ERR_OP);
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, -4, 0, &comm) != MPI_SUCCESS);
    FAILS(MPI_Comm_dup(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_rank(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CHECK(MPI_Waitall(-1, NULL, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    FAILS(MPI_Comm_set_attr(MPI_COMM_WORLD, 12345678, &word), MPI_ERR_KEYVAL);
}

/* A rank's own block lies where it is to go, which is what MPI_IN_PLACE is for. Nobody takes part. */
static void aliased(void)
{
    enum { MOST = 8 };
    static int all[MOST];
    int ones[MOST], places[MOST], bytes[MOST], *own = &all[t_rank];
    MPI_Datatype types[MOST];
    MPI_Comm world = MPI_COMM_WORLD;
    CHECK(t_size <= MOST);
    for (int i = 0; i < t_size; i++)
        ones[i] = 1, places[i] = i, bytes[i] = (int)sizeof(int) * i, types[i] = MPI_INT;
    if (t_rank == 0) {
        FAILS(MPI_Gather(own, 1, MPI_INT, all, 1, MPI_INT, 0, world), MPI_ERR_BUFFER);
        FAILS(MPI_Gatherv(own, 1, MPI_INT, all, ones, places, MPI_INT, 0, world), MPI_ERR_BUFFER);
        FAILS(MPI_Scatter(all, 1, MPI_INT, own, 1, MPI_INT, 0, world), MPI_ERR_BUFFER);
        FAILS(MPI_Scatterv(all, ones, places, MPI_INT, own, 1, MPI_INT, 0, world), MPI_ERR_BUFFER);
        FAILS(MPI_Reduce(all, all, 1, MPI_INT, MPI_SUM, 0, world), MPI_ERR_BUFFER);
    }
    FAILS(MPI_Allgather(own, 1, MPI_INT, all, 1, MPI_INT, world), MPI_ERR_BUFFER);
    FAILS(MPI_Allgatherv(own, 1, MPI_INT, all, ones, places, MPI_INT, world), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoall(all, 1, MPI_INT, all, 1, MPI_INT, world), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoallv(all, ones, places, MPI_INT, all, ones, places, MPI_INT, world), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoallw(all, ones, bytes, types, all, ones, bytes, types, world), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter(all, all, ones, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter_block(all, all, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER);
    FAILS(MPI_Scan(all, all, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER);
    OK(MPI_Barrier(world));
}

static void info_arguments(void)
{
    static char key[MPI_MAX_INFO_KEY + 2], value[MPI_MAX_INFO_VAL + 2];
    MPI_Info info;
    OK(MPI_Info_create(&info));
    memset(key, 'k', MPI_MAX_INFO_KEY + 1);
    memset(value, 'v', MPI_MAX_INFO_VAL + 1);
    FAILS(MPI_Info_set(info, key, "x"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(info, "", "x"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(info, "k", value), MPI_ERR_INFO_VALUE);
    CHECK(MPI_Info_get_nthkey(info, 3, key) != MPI_SUCCESS);
    OK(MPI_Info_free(&info));
}

/* A message that was matched first and then cut: the status tells whose it was. */
static void truncated_match(int peer, int from)
{
    int two[2] = {1, 2}, one[2] = {0, -9}, count;
    MPI_Message message;
    OK(MPI_Isend(two, 2, MPI_INT, peer, 5, MPI_COMM_WORLD, &r));
    OK(MPI_Mprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    FAILS(MPI_Mrecv(one, 1, MPI_INT, &message, &s), MPI_ERR_TRUNCATE);
    SAME(one[1], -9);
    SAME(s.MPI_SOURCE, from);
    SAME(s.MPI_TAG, 5);
    OK(MPI_Get_count(&s, MPI_INT, &count));
    SAME(count, 1);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

static void truncated(void)
{
    int peer = (t_rank + 1) % t_size, from = (t_rank + t_size - 1) % t_size, two[2] = {1, 2}, one[2] = {0, -9};
    OK(MPI_Isend(two, 2, MPI_INT, peer, 0, MPI_COMM_WORLD, &r));
    FAILS(MPI_Recv(one, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &s), MPI_ERR_TRUNCATE);
    SAME(one[1], -9);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    truncated_match(peer, from);
}

/* Messages of an error name the call. */
static void sentence(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    int code = MPI_Send(&word, 1, MPI_INT, t_size + 7, 0, MPI_COMM_WORLD);
    OK(MPI_Error_string(code, text, &length));
    CHECK(length > 10);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "fatal") == 0) {
        if (t_rank == t_size - 1)
            MPI_Send(&word, 1, MPI_INT, t_size + 7, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("not reached\n");
        return 0;
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    handles();
    arguments();
    aliased();
    info_arguments();
    truncated();
    sentence();
    /* all of that has left no trace */
    int sum = 0, one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, t_size);
    return t_done("errors");
}
