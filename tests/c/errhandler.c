/* Error handlers and codes: predefined handlers, our own, inheritance, calling them, strings and
 * classes added by the program.
 */
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void record(MPI_Comm *comm, int *code, ...)
{
    calls++;
    last_code = *code;
    last_comm = *comm;
}

/* An error that every library notices, whether it checks arguments or not: a truncated message to oneself. */
static int provoke(MPI_Comm comm)
{
    int rank, words[2] = {1, 2}, room;
    MPI_Request r;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Isend(words, 2, MPI_INT, rank, 0, comm, &r));
    int code = MPI_Recv(&room, 1, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    return code;
}

static void handlers(void)
{
    MPI_Errhandler mine, got;
    MPI_Comm a, b;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Errhandler_free(&got));
    CHECK(got == MPI_ERRHANDLER_NULL);

    OK(MPI_Comm_create_errhandler(record, &mine));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_set_errhandler(a, mine));
    OK(MPI_Comm_get_errhandler(a, &got));
    CHECK(got == mine);
    OK(MPI_Errhandler_free(&got));
    provoke(a); /* what the call returns after our handler has run is the library's affair */
    SAME(calls, 1);
    SAME(t_class(last_code), MPI_ERR_TRUNCATE);
    CHECK(last_comm == a);

    OK(MPI_Comm_call_errhandler(a, MPI_ERR_OTHER));
    SAME(calls, 2);
    SAME(t_class(last_code), MPI_ERR_OTHER);

    /* inherited by duplicates; lives on in communicators when it was freed */
    OK(MPI_Comm_dup(a, &b));
    OK(MPI_Errhandler_free(&mine));
    CHECK(mine == MPI_ERRHANDLER_NULL);
    provoke(b);
    SAME(calls, 3);
    CHECK(last_comm == b);
    OK(MPI_Comm_free(&b));
    OK(MPI_Comm_split(a, 0, 0, &b));
    provoke(b);
    SAME(calls, 4);
    OK(MPI_Comm_free(&b));

    OK(MPI_Comm_set_errhandler(a, MPI_ERRORS_RETURN));
    OK(MPI_Comm_get_errhandler(a, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    OK(MPI_Errhandler_free(&got));
    FAILS(provoke(a), MPI_ERR_TRUNCATE);
    SAME(calls, 4);
    OK(MPI_Comm_free(&a));
}

/* An operation that is pending when its communicator is freed fails as that one's error handler wants it. */
static void freed(void)
{
    MPI_Errhandler mine;
    char in = 0;
    OK(MPI_Comm_create_errhandler(record, &mine));
    for (int own = 0; own < 2; own++) {
        MPI_Comm comm;
        MPI_Request r;
        OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        OK(MPI_Comm_set_errhandler(comm, own ? mine : MPI_ERRORS_RETURN));
        OK(MPI_Irecv(&in, 1, MPI_CHAR, 0, 0, comm, &r));
        OK(MPI_Send("long", 4, MPI_CHAR, 0, 0, comm));
        OK(MPI_Comm_free(&comm));
        calls = 0;
        FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        SAME(calls, own);
    }
    OK(MPI_Errhandler_free(&mine));
}

static void texts(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    for (int code = 0; code <= MPI_ERR_ABI; code++) {
        memset(text, '#', sizeof text);
        length = -1;
        OK(MPI_Error_string(code, text, &length));
        CHECK(length > 0 && length < MPI_MAX_ERROR_STRING && text[length] == '\0' && strlen(text) == (size_t)length);
        OK(MPI_Error_class(code, &class));
        CHECK(class == code || class == MPI_ERR_UNKNOWN); /* the classes of some ABIs have gaps */
    }
    OK(MPI_Error_class(MPI_ERR_TRUNCATE, &class));
    SAME(class, MPI_ERR_TRUNCATE);
}

static void additions(void)
{
    int class, other, code, got, *last, flag, length;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag);
    int before = *last;
    OK(MPI_Add_error_class(&class));
    CHECK(class > MPI_ERR_LASTCODE && class > before);
    OK(MPI_Add_error_class(&other));
    CHECK(other != class);
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Error_class(code, &got));
    SAME(got, class);
    OK(MPI_Error_class(class, &got));
    SAME(got, class);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last >= other);
    OK(MPI_Add_error_string(class, "the mountain does not answer"));
    OK(MPI_Add_error_string(code, "no echo"));
    OK(MPI_Error_string(class, text, &length));
    CHECK(strcmp(text, "the mountain does not answer") == 0);
    OK(MPI_Error_string(code, text, &length));
    CHECK(strcmp(text, "no echo") == 0 && length == 7);

    MPI_Errhandler mine;
    OK(MPI_Comm_create_errhandler(record, &mine));
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, mine));
    OK(MPI_Errhandler_free(&mine));
    calls = 0;
    OK(MPI_Comm_call_errhandler(comm, code));
    SAME(calls, 1);
    SAME(last_code, code);
    OK(MPI_Comm_free(&comm));

    OK(MPI_Remove_error_string(code));
    OK(MPI_Error_string(code, text, &length));
    SAME(length, 0);
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_string(class));
    OK(MPI_Remove_error_class(class));
    OK(MPI_Remove_error_class(other));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    handlers();
    if (argc < 2) /* else on another implementation, which calls the handler of MPI_COMM_SELF */
        freed();
    texts();
    additions();
    return t_done("errhandler");
}
