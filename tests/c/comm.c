/* Communicators: duplicate (also non-blocking, also with info), split, split by type, create, create
 * from a group, compare, names, info, many at a time, nested, freed while in use.
 */
#include "check.h"

static int works(MPI_Comm comm)
{
    int rank, size, sum = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, size * (size - 1) / 2);
    return size;
}

/* How many ranks run on this rank's host: they share memory. */
static int of_my_host(void)
{
    enum { LONG = MPI_MAX_PROCESSOR_NAME };
    char mine[LONG] = "", *all = t_alloc(LONG * (size_t)t_size);
    int length, count = 0;
    OK(MPI_Get_processor_name(mine, &length));
    OK(MPI_Allgather(mine, LONG, MPI_CHAR, all, LONG, MPI_CHAR, MPI_COMM_WORLD));
    for (int i = 0; i < t_size; i++)
        count += strcmp(all + LONG * (size_t)i, mine) == 0;
    free(all);
    return count;
}

static int relation(MPI_Comm a, MPI_Comm b)
{
    int result = -1;
    OK(MPI_Comm_compare(a, b, &result));
    return result;
}

static void duplicates(void)
{
    MPI_Comm a, b, c, d;
    MPI_Request r[2];
    MPI_Info info;
    SAME(relation(MPI_COMM_WORLD, MPI_COMM_WORLD), MPI_IDENT);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    SAME(relation(a, MPI_COMM_WORLD), MPI_CONGRUENT);
    SAME(works(a), t_size);
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &b, &r[0]));
    OK(MPI_Comm_idup(a, &c, &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    SAME(works(b), t_size);
    SAME(works(c), t_size);
    SAME(relation(b, c), MPI_CONGRUENT);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &d));
    SAME(works(d), t_size);
    OK(MPI_Comm_free(&d));
    CHECK(d == MPI_COMM_NULL);
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &d, &r[0]));
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    SAME(works(d), t_size);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&a));
    SAME(works(c), t_size); /* the copy outlives the original */
    OK(MPI_Comm_free(&b));
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_free(&d));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &a));
    SAME(works(a), 1);
    SAME(relation(a, MPI_COMM_SELF), MPI_CONGRUENT);
    SAME(relation(a, MPI_COMM_WORLD), t_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    OK(MPI_Comm_free(&a));
}

static void splits(void)
{
    MPI_Comm comm, again;
    int rank, size;
    for (int colours = 1; colours <= 3; colours++)
        for (int order = 0; order < 3; order++) {
            int key = order == 0 ? 0 : order == 1 ? -t_rank : (t_rank * 7) % 5;
            OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank % colours, key, &comm));
            works(comm);
            OK(MPI_Comm_rank(comm, &rank));
            OK(MPI_Comm_size(comm, &size));
            /* by key, and by the old rank where keys are equal */
            int before = 0, members = 0;
            for (int r = t_rank % colours; r < t_size; r += colours) {
                int other = order == 0 ? 0 : order == 1 ? -r : (r * 7) % 5;
                members++;
                before += other < key || (other == key && r < t_rank);
            }
            SAME(size, members);
            SAME(rank, before);
            OK(MPI_Comm_split(comm, rank / 2, 0, &again));
            CHECK(works(again) <= 2);
            OK(MPI_Comm_free(&comm));
            works(again);
            OK(MPI_Comm_free(&again));
        }
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == 0 ? MPI_UNDEFINED : 4, 0, &comm));
    if (t_rank == 0)
        CHECK(comm == MPI_COMM_NULL);
    else {
        SAME(works(comm), t_size - 1);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &comm));
    SAME(relation(comm, MPI_COMM_WORLD), t_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    OK(MPI_Comm_free(&comm));

    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    int together = of_my_host();
    SAME(works(comm), together);
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -t_rank, MPI_INFO_NULL, &comm));
    int other;
    OK(MPI_Comm_rank(comm, &other));
    SAME(other, together - 1 - rank);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, t_rank % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    CHECK((comm == MPI_COMM_NULL) == (t_rank % 2));
    if (comm != MPI_COMM_NULL)
        OK(MPI_Comm_free(&comm));
}

static void creations(void)
{
    MPI_Group world, evens, none;
    MPI_Comm comm;
    int range[1][3] = {{0, t_size - 1, 2}};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_range_incl(world, 1, range, &evens));
    OK(MPI_Comm_create(MPI_COMM_WORLD, evens, &comm));
    CHECK((comm == MPI_COMM_NULL) == (t_rank % 2));
    if (comm != MPI_COMM_NULL) {
        SAME(works(comm), (t_size + 1) / 2);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
    CHECK(comm == MPI_COMM_NULL);

    /* Only the members take part, and disjoint groups at the same time with the same tag. */
    OK(MPI_Group_difference(world, evens, &none));
    int odds;
    OK(MPI_Group_size(none, &odds));
    SAME(odds, t_size / 2);
    for (int round = 0; round < 3; round++) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, t_rank % 2 ? none : evens, 5, &comm));
        SAME(works(comm), t_rank % 2 ? t_size / 2 : (t_size + 1) / 2);
        OK(MPI_Comm_free(&comm));
    }
    /* a group in another order */
    int *order = t_alloc((size_t)t_size * sizeof *order), rank;
    for (int i = 0; i < t_size; i++)
        order[i] = (i + 1) % t_size;
    MPI_Group turned;
    OK(MPI_Group_incl(world, t_size, order, &turned));
    OK(MPI_Comm_create(MPI_COMM_WORLD, turned, &comm));
    OK(MPI_Comm_rank(comm, &rank));
    SAME(order[rank], t_rank);
    works(comm);
    OK(MPI_Comm_free(&comm));
    free(order);
    OK(MPI_Group_free(&turned));
    OK(MPI_Group_free(&none));
    OK(MPI_Group_free(&evens));
    OK(MPI_Group_free(&world));
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME], *long_name;
    int length;
    MPI_Comm comm;
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
    OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &length));
    CHECK(strcmp(name, "MPI_COMM_SELF") == 0);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(length == 0 && name[0] == '\0');
    OK(MPI_Comm_set_name(comm, "echo"));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(strcmp(name, "echo") == 0 && length == 4);
    long_name = t_alloc(MPI_MAX_OBJECT_NAME);
    memset(long_name, 'n', MPI_MAX_OBJECT_NAME - 1);
    long_name[MPI_MAX_OBJECT_NAME - 1] = '\0';
    OK(MPI_Comm_set_name(comm, long_name));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(strcmp(name, long_name) == 0 && length == MPI_MAX_OBJECT_NAME - 1);
    free(long_name);
    /* In whatever encoding. */
    OK(MPI_Comm_set_name(comm, "caf\xe9"));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(strcmp(name, "caf\xe9") == 0 && length == 4);
    OK(MPI_Comm_free(&comm));
}

static void inquiries(void)
{
    int flag = 1, result;
    MPI_Info info;
    MPI_Group group, world;
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    CHECK(!flag);
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    CHECK(info != MPI_INFO_NULL);
    OK(MPI_Info_free(&info));
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_exact_length", "false"));
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result));
    SAME(result, MPI_IDENT);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    /* integers for handles and back, also of the predefined */
    SAME(MPI_Comm_toint(MPI_COMM_WORLD), (intptr_t)MPI_COMM_WORLD);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_SELF)) == MPI_COMM_SELF);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    int number = MPI_Comm_toint(comm);
    CHECK(number < 0 || number > 4095);
    CHECK(MPI_Comm_fromint(number) == comm);
    OK(MPI_Comm_free(&comm));
}

/* More than any small table of context numbers holds, living together; and created and freed for long. */
static void many(void)
{
    enum { N = 200, ROUNDS = 600 };
    MPI_Comm comms[N], comm;
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_dup(i % 2 ? comms[i - 1] : MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < N; i += 17)
        works(comms[i]);
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_free(&comms[(i * 7) % N]));
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Comm_free(&comm));
    }
}

/* Freed while a receive on it is open: the receive still completes. */
static void freed_in_use(void)
{
    MPI_Comm comm;
    MPI_Request r;
    int in = 0, out = 8, right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&in, 1, MPI_INT, left, 0, comm, &r));
    OK(MPI_Send(&out, 1, MPI_INT, right, 0, comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    SAME(in, 8);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    duplicates();
    splits();
    creations();
    names();
    inquiries();
    many();
    freed_in_use();
    return t_done("comm");
}
