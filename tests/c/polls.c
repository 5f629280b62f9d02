/* Programs that wait by asking again and again, with more ranks than processors: each round needs all of them to run, and where a rank that asks
 * keeps its processor until that is taken from it, a round takes milliseconds. So many rounds end within a test's time only where such a
 * rank gives way. */
#include "check.h"

enum { ROUNDS = 4000, FORMS = 7 };

static int is_over(int form, MPI_Request *request, int from)
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
        flag = count == 1;
        break;
    case 4:
        OK(MPI_Request_get_status(*request, &flag, &status));
        break;
    case 5:
        OK(MPI_Iprobe(from, 0, MPI_COMM_WORLD, &flag, &status));
        break;
    default: {
        MPI_Message message;
        OK(MPI_Improbe(from, 0, MPI_COMM_WORLD, &flag, &message, &status));
        if (flag) {
            OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
            SAME(got, from);
        }
    }
    }
    return flag;
}

static void round_of(int form)
{
    int to = (t_rank + 1) % t_size, from = (t_rank + t_size - 1) % t_size, got = -1;
    MPI_Request sent, received = MPI_REQUEST_NULL;
    OK(MPI_Isend(&t_rank, 1, MPI_INT, to, 0, MPI_COMM_WORLD, &sent));
    if (form < 5)
        OK(MPI_Irecv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &received));
    while (!is_over(form, &received, from))
        ;
    if (form == 4)
        OK(MPI_Wait(&received, MPI_STATUS_IGNORE));
    if (form == 5)
        OK(MPI_Recv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (form < 6)
        SAME(got, from);
    OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    for (int form = 0; form < FORMS; form++)
        for (int round = 0; round < ROUNDS; round++)
            round_of(form);
    return t_done("polls");
}
