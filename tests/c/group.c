/* Groups: set operations, inclusion and exclusion by list and by range, translation, comparison. */
#include "check.h"

enum { MOST = 64 };

static MPI_Group world;

/* A group by the list of world ranks. */
static MPI_Group of(int n, const int *ranks)
{
    MPI_Group group;
    OK(MPI_Group_incl(world, n, ranks, &group));
    return group;
}

/* The group holds just these world ranks in this order. */
static void is(const char *file, int line, MPI_Group group, int n, const int *ranks)
{
    int size, rank, mine = MPI_UNDEFINED, all[MOST], back[MOST];
    OK(MPI_Group_size(group, &size));
    if (size != n)
        t_fail(file, line, "the group has %d members, not %d", size, n);
    for (int i = 0; i < n; i++) {
        all[i] = i;
        if (ranks[i] == t_rank)
            mine = i;
    }
    OK(MPI_Group_translate_ranks(group, n, all, world, back));
    for (int i = 0; i < n; i++)
        if (back[i] != ranks[i])
            t_fail(file, line, "member %d is rank %d, not %d", i, back[i], ranks[i]);
    OK(MPI_Group_rank(group, &rank));
    if (rank != mine)
        t_fail(file, line, "my rank is %d, not %d", rank, mine);
}

#define IS(group, n, ranks) is(__FILE__, __LINE__, group, n, ranks)

static int relation(MPI_Group a, MPI_Group b)
{
    int result = -1;
    OK(MPI_Group_compare(a, b, &result));
    return result;
}

/* Every pair of small subsets, against the definitions. */
static void sets(void)
{
    int masks = t_size >= 4 ? 16 : 1 << t_size;
    for (int x = 0; x < masks; x++)
        for (int y = 0; y < masks; y++) {
            int a[8], b[8], want[16], na = 0, nb = 0, n;
            for (int r = 0; r < 4; r++) /* the first upwards, the second downwards */
                if (x >> r & 1)
                    a[na++] = r;
            for (int r = 3; r >= 0; r--)
                if (y >> r & 1)
                    b[nb++] = r;
            MPI_Group ga = of(na, a), gb = of(nb, b), g;
            IS(ga, na, a);
            IS(gb, nb, b);

            OK(MPI_Group_union(ga, gb, &g));
            for (n = 0; n < na; n++)
                want[n] = a[n];
            for (int i = 0; i < nb; i++)
                if (!(x >> b[i] & 1))
                    want[n++] = b[i];
            IS(g, n, want);
            if (g != MPI_GROUP_EMPTY)
                OK(MPI_Group_free(&g));

            OK(MPI_Group_intersection(ga, gb, &g));
            n = 0;
            for (int i = 0; i < na; i++)
                if (y >> a[i] & 1)
                    want[n++] = a[i];
            IS(g, n, want);
            if (g != MPI_GROUP_EMPTY)
                OK(MPI_Group_free(&g));

            OK(MPI_Group_difference(ga, gb, &g));
            n = 0;
            for (int i = 0; i < na; i++)
                if (!(y >> a[i] & 1))
                    want[n++] = a[i];
            IS(g, n, want);
            if (g != MPI_GROUP_EMPTY)
                OK(MPI_Group_free(&g));

            SAME(relation(ga, gb), x != y ? MPI_UNEQUAL : na <= 1 ? MPI_IDENT : MPI_SIMILAR);
            if (ga != MPI_GROUP_EMPTY)
                OK(MPI_Group_free(&ga));
            if (gb != MPI_GROUP_EMPTY)
                OK(MPI_Group_free(&gb));
        }
}

static void ranges(void)
{
    int want[MOST], n = 0;
    MPI_Group g;
    int up[1][3] = {{0, t_size - 1, 2}};
    OK(MPI_Group_range_incl(world, 1, up, &g));
    for (int r = 0; r < t_size; r += 2)
        want[n++] = r;
    IS(g, n, want);
    OK(MPI_Group_free(&g));

    int down[1][3] = {{t_size - 1, 0, -1}};
    OK(MPI_Group_range_incl(world, 1, down, &g));
    n = 0;
    for (int r = t_size - 1; r >= 0; r--)
        want[n++] = r;
    IS(g, n, want);
    SAME(relation(g, world), t_size == 1 ? MPI_IDENT : MPI_SIMILAR);
    OK(MPI_Group_free(&g));

    OK(MPI_Group_range_excl(world, 1, up, &g));
    n = 0;
    for (int r = 1; r < t_size; r += 2)
        want[n++] = r;
    IS(g, n, want);
    if (g != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&g));

    if (t_size >= 3) {
        int two[2][3] = {{2, 2, 1}, {0, 1, 1}};
        int order[] = {2, 0, 1};
        OK(MPI_Group_range_incl(world, 2, two, &g));
        IS(g, 3, order);
        OK(MPI_Group_free(&g));
        int out[] = {1};
        OK(MPI_Group_excl(world, 1, out, &g));
        n = 0;
        for (int r = 0; r < t_size; r++)
            if (r != 1)
                want[n++] = r;
        IS(g, n, want);
        OK(MPI_Group_free(&g));
    }
    OK(MPI_Group_range_incl(world, 0, NULL, &g));
    CHECK(g == MPI_GROUP_EMPTY);
    OK(MPI_Group_incl(world, 0, NULL, &g));
    CHECK(g == MPI_GROUP_EMPTY);
    OK(MPI_Group_excl(world, 0, NULL, &g));
    SAME(relation(g, world), MPI_IDENT);
    OK(MPI_Group_free(&g));
}

static void translation(void)
{
    int in[3] = {0, MPI_PROC_NULL, t_size - 1}, out[3];
    OK(MPI_Group_translate_ranks(world, 3, in, world, out));
    SAME(out[0], 0);
    SAME(out[1], MPI_PROC_NULL);
    SAME(out[2], t_size - 1);
    int last = t_size - 1;
    MPI_Group g = of(1, &last);
    OK(MPI_Group_translate_ranks(world, 3, in, g, out));
    SAME(out[0], t_size == 1 ? 0 : MPI_UNDEFINED);
    SAME(out[2], 0);
    OK(MPI_Group_free(&g));
    CHECK(g == MPI_GROUP_NULL);
    MPI_Group self;
    OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    int zero = 0, mine;
    OK(MPI_Group_translate_ranks(self, 1, &zero, world, &mine));
    SAME(mine, t_rank);
    OK(MPI_Group_free(&self));
    int size = -1, rank = 0;
    OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
    SAME(size, 0);
    OK(MPI_Group_rank(MPI_GROUP_EMPTY, &rank));
    SAME(rank, MPI_UNDEFINED);
    SAME(relation(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY), MPI_IDENT);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    sets();
    ranges();
    translation();
    OK(MPI_Group_free(&world));
    return t_done("group");
}
