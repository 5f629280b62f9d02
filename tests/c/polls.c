/* Programs that wait by asking again and again, with more ranks than processors: each round needs all of them to run, and where a rank that asks
 * keeps its processor until that is taken from it, a round takes milliseconds. So many rounds end within a test's time only where such a
 * rank gives way.
 *
 * Argument "threads": with MPI_THREAD_MULTIPLE, and two threads in each rank do all that. What is over by the time that one has let the other in is told
 * all the same, and once.
 */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 4000, FORMS = 10, IPROBE = 8, THREADS = 2 };

/* Whether a request is over, or a message has come, asked in this form. */
static int is_over(int form, MPI_Request *request, int from, int tag)
{
    MPI_Status status;
    int flag = 0, index, count, got;
    switch (form) {
    case 0:
        OK(MPI_Test(request, &flag, &status));
        break;
    case 1:
        OK(MPI_Testall(1, request, &flag, &status));
        break;
    case 2:
        OK(MPI_Testany(1, request, &index, &flag, &status));
        break;
    case 3:
        OK(MPI_Testsome(1, request, &count, &index, &status));
        SAME(count, *request == MPI_REQUEST_NULL);
        flag = count;
        break;
    case 4:
        OK(MPI_Request_get_status(*request, &flag, &status));
        break;
    case 5:
        OK(MPI_Request_get_status_any(1, request, &index, &flag, &status));
        break;
    case 6:
        OK(MPI_Request_get_status_all(1, request, &flag, &status));
        break;
    case 7:
        OK(MPI_Request_get_status_some(1, request, &flag, &index, &status));
        break;
    case IPROBE:
        OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, &status));
        break;
    default: {
        MPI_Message message;
        OK(MPI_Improbe(from, tag, MPI_COMM_WORLD, &flag, &message, &status));
        if (flag) {
            OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
            SAME(got, from);
        }
    }
    }
    return flag;
}

static void round_of(int form, int tag)
{
    int to = (t_rank + 1) % t_size, from = (t_rank + t_size - 1) % t_size, got = -1;
    MPI_Request sent, received = MPI_REQUEST_NULL;
    OK(MPI_Isend(&t_rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD, &sent));
    if (form < IPROBE)
        OK(MPI_Irecv(&got, 1, MPI_INT, from, tag, MPI_COMM_WORLD, &received));
    while (!is_over(form, &received, from, tag))
        ;
    OK(MPI_Wait(&received, MPI_STATUS_IGNORE));
    if (form == IPROBE)
        OK(MPI_Recv(&got, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (form <= IPROBE)
        SAME(got, from);
    OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
}

static void *all_forms(void *argument)
{
    int tag = *(int *)argument;
    for (int form = 0; form < FORMS; form++)
        for (int round = 0; round < ROUNDS; round++)
            round_of(form, tag);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, threads = argc > 1 ? THREADS : 1, tags[THREADS];
    pthread_t others[THREADS];
    OK(MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    for (int i = 0; i < threads; i++)
        tags[i] = i;
    for (int i = 1; i < threads; i++)
        CHECK(pthread_create(&others[i], NULL, all_forms, &tags[i]) == 0);
    all_forms(&tags[0]);
    for (int i = 1; i < threads; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
    return t_done("polls");
}
