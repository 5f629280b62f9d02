/* Generalised requests: completed by the program, queried, freed and cancelled through call-backs,
 * alone and in lists together with other requests.
 */
#include "check.h"

typedef struct {
    int queried, freed, cancelled, complete_at_cancel;
} Trace;

static int query(void *state, MPI_Status *status)
{
    Trace *trace = state;
    trace->queried++;
    OK(MPI_Status_set_elements(status, MPI_INT, 3));
    OK(MPI_Status_set_cancelled(status, trace->cancelled));
    status->MPI_SOURCE = 11;
    status->MPI_TAG = 12;
    return MPI_SUCCESS;
}

static int query_in_vain(void *state, MPI_Status *status)
{
    query(state, status);
    return MPI_ERR_OTHER;
}

static int release(void *state)
{
    ((Trace *)state)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    Trace *trace = state;
    trace->cancelled = 1;
    trace->complete_at_cancel = complete;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    MPI_Request r, list[2];
    MPI_Status s, states[2];
    int flag, count, word = -1, index;
    Trace trace = {0, 0, 0, 0};

    OK(MPI_Grequest_start(query, release, cancel, &trace, &r));
    OK(MPI_Test(&r, &flag, &s));
    CHECK(!flag);
    SAME(trace.queried, 0);
    OK(MPI_Grequest_complete(r));
    OK(MPI_Wait(&r, &s));
    CHECK(r == MPI_REQUEST_NULL);
    SAME(trace.queried, 1);
    SAME(trace.freed, 1);
    SAME(s.MPI_SOURCE, 11);
    SAME(s.MPI_TAG, 12);
    OK(MPI_Get_count(&s, MPI_INT, &count));
    SAME(count, 3);

    /* What the query function returns is the call's code; the status it filled is the status all the same. */
    trace = (Trace){0, 0, 0, 0};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Grequest_start(query_in_vain, release, cancel, &trace, &r));
    OK(MPI_Grequest_complete(r));
    FAILS(MPI_Wait(&r, &s), MPI_ERR_OTHER);
    SAME(trace.freed, 1);
    SAME(s.MPI_SOURCE, 11);
    SAME(s.MPI_TAG, 12);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));

    trace = (Trace){0, 0, 0, 0};
    OK(MPI_Grequest_start(query, release, cancel, &trace, &list[0]));
    OK(MPI_Irecv(&word, 1, MPI_INT, t_rank, 0, MPI_COMM_WORLD, &list[1]));
    OK(MPI_Testall(2, list, &flag, states));
    CHECK(!flag);
    OK(MPI_Grequest_complete(list[0]));
    OK(MPI_Testany(2, list, &index, &flag, &s));
    CHECK(flag);
    SAME(index, 0);
    SAME(s.MPI_TAG, 12);
    OK(MPI_Send(&count, 1, MPI_INT, t_rank, 0, MPI_COMM_WORLD));
    OK(MPI_Waitall(2, list, states));
    SAME(word, 3);
    SAME(trace.freed, 1);

    /* cancelled before it was complete, and after */
    for (int complete = 0; complete < 2; complete++) {
        trace = (Trace){0, 0, 0, 0};
        OK(MPI_Grequest_start(query, release, cancel, &trace, &r));
        if (complete)
            OK(MPI_Grequest_complete(r));
        OK(MPI_Cancel(&r));
        SAME(trace.cancelled, 1);
        SAME(!!trace.complete_at_cancel, complete);
        if (!complete)
            OK(MPI_Grequest_complete(r));
        OK(MPI_Wait(&r, &s));
        OK(MPI_Test_cancelled(&s, &flag));
        CHECK(flag);
        SAME(trace.freed, 1);
    }

    /* Freed by the program: the call-back comes when it is both freed and complete. */
    trace = (Trace){0, 0, 0, 0};
    OK(MPI_Grequest_start(query, release, cancel, &trace, &r));
    OK(MPI_Grequest_complete(r));
    OK(MPI_Request_get_status(r, &flag, &s));
    CHECK(flag);
    SAME(s.MPI_SOURCE, 11);
    SAME(trace.freed, 0);
    OK(MPI_Request_free(&r));
    SAME(trace.freed, 1);
    return t_done("greq");
}
