/* Arguments that look wrong and are right: buffers that are not significant, the parts of one buffer that two types describe, reductions of characters.
 */
#include "check.h"

enum { ROOM = 64, BEHIND = 32 };

static int buffer[ROOM];

static void fill(void)
{
    for (int i = 0; i < ROOM; i++)
        buffer[i] = 1000 * t_rank + i;
}

/* The first rank gets nothing, and need not say where. */
static void exclusive(void)
{
    int one = t_rank + 1, got = -1, before = t_rank * (t_rank + 1) / 2;
    int *where = t_rank == 0 ? NULL : &got;
    MPI_Request r;
    for (int way = 0; way < 3; way++) {
        got = -1;
        switch (way) {
        case 0:
            OK(MPI_Exscan(&one, where, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            break;
        case 1:
            OK(MPI_Iexscan(&one, where, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            break;
        default:
            OK(MPI_Exscan_init(&one, where, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
            OK(MPI_Start(&r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&r));
        }
        SAME(got, t_rank == 0 ? -1 : before);
    }
}

/* What is sent lies behind what is received, in a buffer that both types begin at. */
static void one_base(void)
{
    int behind = BEHIND, size = t_size, periodic = 1;
    MPI_Datatype far_one, far;
    MPI_Comm ring;
    OK(MPI_Type_create_indexed_block(1, 1, &behind, MPI_INT, &far_one));
    OK(MPI_Type_create_resized(far_one, 0, sizeof(int), &far));
    OK(MPI_Type_commit(&far));

    fill();
    OK(MPI_Allgather(buffer, 1, far, buffer, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < t_size; i++)
        SAME(buffer[i], 1000 * i + BEHIND);
    fill();
    OK(MPI_Alltoall(buffer, 1, far, buffer, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < t_size; i++)
        SAME(buffer[i], 1000 * i + BEHIND + t_rank);
    fill();
    OK(MPI_Gather(buffer, 1, far, buffer, 1, MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; i < t_size && t_rank == 0; i++)
        SAME(buffer[i], 1000 * i + BEHIND);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring));
    fill();
    OK(MPI_Neighbor_alltoall(buffer, 1, far, buffer, 1, MPI_INT, ring));
    SAME(buffer[0], 1000 * ((t_rank + t_size - 1) % t_size) + BEHIND + 1);
    SAME(buffer[1], 1000 * ((t_rank + 1) % t_size) + BEHIND);
    OK(MPI_Comm_free(&ring));
    OK(MPI_Type_free(&far));
    OK(MPI_Type_free(&far_one));
}

/* The standard defines none on MPI_CHAR; others do, and programs rely on it. */
static void characters(void)
{
    char one = 1, sum = 0, most = 0, mine = (char)t_rank;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, t_size);
    OK(MPI_Allreduce(&mine, &most, 1, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD));
    SAME(most, t_size - 1);
    MPI_Aint address = 8, all = 0;
    OK(MPI_Allreduce(&address, &all, 1, MPI_AINT, MPI_LAND, MPI_COMM_WORLD));
    SAME((int)all, t_size == 1 ? 8 : 1);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    exclusive();
    one_base();
    characters();
    return t_done("coll_args");
}
