/* Broadcasts behind which the ranks may compute, of ranks on hosts of their own of which two have begun the ring and the others not yet (YAMABIKO_CAD=auto), around
 * the lengths that go there: all ranks have to pass the data on alike.
 */
#include "../c/check.h"
#include "../c/counters.h"

/* Bytes that begin the ring, between two ranks. */
enum { STRAIGHT = 1 << 20 };

static void broadcast(char *data, int bytes, int root, MPI_Comm comm)
{
    int rank;
    MPI_Request request;
    OK(MPI_Comm_rank(comm, &rank));
    for (int i = 0; i < bytes; i++)
        data[i] = (char)(rank == root ? i * 7 + root : -1);
    OK(MPI_Ibcast(data, bytes, MPI_BYTE, root, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < bytes; i++)
        SAME(data[i], (char)(i * 7 + root));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    const int lengths[] = {20 << 10, 63 << 10, 200 << 10, 512 << 10, STRAIGHT - 1, STRAIGHT, 2 * STRAIGHT};
    char *data = t_alloc(2 * STRAIGHT);
    MPI_Comm pair;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank < 2 ? 0 : MPI_UNDEFINED, 0, &pair));
    if (pair != MPI_COMM_NULL) {
        broadcast(data, STRAIGHT, 0, pair);
        SAME((int)counted("yamabiko_collectives_ring"), 1);
        OK(MPI_Comm_free(&pair));
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int root = 0; root < t_size; root++)
            broadcast(data, lengths[i], root, MPI_COMM_WORLD);
    CHECK(counted("yamabiko_collectives_ring") > 1);
    free(data);
    return t_done("begun");
}
