/* Datatype constructors: size, bounds and the order of the data against hand-computed values;
 * envelopes and contents; names, duplicates, matching by size; large counts.
 */
#include "check.h"

/* The bytes that a type picks out of memory, in order: found by packing a buffer in which every byte
 * says where it stands. */
static void picks(const char *file, int line, MPI_Datatype type, int base, int n, const int *want)
{
    unsigned char memory[256], packed[256];
    int at = 0, size;
    for (int i = 0; i < 256; i++)
        memory[i] = (unsigned char)i;
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &size));
    if (size != n)
        t_fail(file, line, "size %d, not %d", size, n);
    OK(MPI_Pack(memory + base, 1, type, packed, sizeof packed, &at, MPI_COMM_WORLD));
    if (at != n)
        t_fail(file, line, "%d bytes were packed, not %d", at, n);
    for (int i = 0; i < n; i++)
        if (packed[i] != base + want[i])
            t_fail(file, line, "byte %d comes from %d, not %d", i, packed[i] - base, want[i]);
    /* and back: only these bytes change */
    unsigned char back[256];
    memset(back, 0xEE, sizeof back);
    at = 0;
    OK(MPI_Unpack(packed, n, &at, back + base, 1, type, MPI_COMM_WORLD));
    int changed = 0;
    for (int i = 0; i < 256; i++)
        changed += back[i] != 0xEE;
    for (int i = 0; i < n; i++)
        if (back[base + want[i]] != memory[base + want[i]])
            t_fail(file, line, "byte %d did not come back", want[i]);
    if (changed > n)
        t_fail(file, line, "%d bytes changed, not %d", changed, n);
}

static void bounds(const char *file, int line, MPI_Datatype type, MPI_Aint lb, MPI_Aint extent, MPI_Aint true_lb, MPI_Aint true_extent)
{
    MPI_Aint a, b, c, d;
    MPI_Count ca, cb, cc, cd, size_c, size_x;
    int size;
    OK(MPI_Type_get_extent(type, &a, &b));
    OK(MPI_Type_get_true_extent(type, &c, &d));
    if (a != lb || b != extent || c != true_lb || d != true_extent)
        t_fail(file, line, "bounds %ld %ld %ld %ld, not %ld %ld %ld %ld", (long)a, (long)b, (long)c, (long)d, (long)lb,
               (long)extent, (long)true_lb, (long)true_extent);
    OK(MPI_Type_get_extent_c(type, &ca, &cb));
    OK(MPI_Type_get_true_extent_c(type, &cc, &cd));
    CHECK(ca == lb && cb == extent && cc == true_lb && cd == true_extent);
    OK(MPI_Type_get_extent_x(type, &ca, &cb));
    OK(MPI_Type_get_true_extent_x(type, &cc, &cd));
    CHECK(ca == lb && cb == extent && cc == true_lb && cd == true_extent);
    OK(MPI_Type_size(type, &size));
    OK(MPI_Type_size_c(type, &size_c));
    OK(MPI_Type_size_x(type, &size_x));
    CHECK(size == size_c && size == size_x);
}

#define PICKS(type, base, ...) \
    do { \
        static const int want_[] = {__VA_ARGS__}; \
        picks(__FILE__, __LINE__, type, base, (int)(sizeof want_ / sizeof *want_), want_); \
    } while (0)
#define BOUNDS(type, lb, extent, tlb, textent) bounds(__FILE__, __LINE__, type, lb, extent, tlb, textent)

static void constructors(void)
{
    MPI_Datatype t, u, v;
    OK(MPI_Type_contiguous(3, MPI_SHORT, &t));
    BOUNDS(t, 0, 6, 0, 6);
    PICKS(t, 0, 0, 1, 2, 3, 4, 5);

    OK(MPI_Type_vector(2, 2, 3, MPI_BYTE, &u));
    BOUNDS(u, 0, 5, 0, 5);
    PICKS(u, 0, 0, 1, 3, 4);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_vector(3, 1, -2, MPI_BYTE, &u)); /* backwards */
    BOUNDS(u, -4, 5, -4, 5);
    PICKS(u, 10, 0, -2, -4);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hvector(2, 1, 7, t, &u));
    BOUNDS(u, 0, 13, 0, 13);
    PICKS(u, 0, 0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12);
    OK(MPI_Type_free(&u));

    int lengths[] = {2, 0, 1}, places[] = {4, 9, 0};
    OK(MPI_Type_indexed(3, lengths, places, MPI_BYTE, &u));
    BOUNDS(u, 0, 6, 0, 6);
    PICKS(u, 0, 4, 5, 0);
    OK(MPI_Type_free(&u));
    MPI_Aint far[] = {10, 50, 1};
    OK(MPI_Type_create_hindexed(3, lengths, far, MPI_SHORT, &u));
    BOUNDS(u, 1, 13, 1, 13);
    PICKS(u, 0, 10, 11, 12, 13, 1, 2);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_indexed_block(3, 2, places, MPI_BYTE, &u));
    BOUNDS(u, 0, 11, 0, 11);
    PICKS(u, 0, 4, 5, 9, 10, 0, 1);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hindexed_block(2, 1, far, t, &u));
    BOUNDS(u, 10, 46, 10, 46);
    PICKS(u, 0, 10, 11, 12, 13, 14, 15, 50, 51, 52, 53, 54, 55);
    OK(MPI_Type_free(&u));

    /* struct, with alignment at its end as a C compiler has it */
    struct layout {
        char a;
        double b;
        char c;
    };
    int ones[] = {1, 1, 1};
    MPI_Aint fields[] = {offsetof(struct layout, a), offsetof(struct layout, b), offsetof(struct layout, c)};
    MPI_Datatype kinds[] = {MPI_CHAR, MPI_DOUBLE, MPI_CHAR};
    OK(MPI_Type_create_struct(3, ones, fields, kinds, &u));
    BOUNDS(u, 0, sizeof(struct layout), 0, 17);
    PICKS(u, 0, 0, 8, 9, 10, 11, 12, 13, 14, 15, 16);

    /* resized: bounds of our own, also a negative lower one; nested in others */
    OK(MPI_Type_create_resized(u, -4, 40, &v));
    BOUNDS(v, -4, 40, 0, 17);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_contiguous(2, v, &u));
    BOUNDS(u, -4, 80, 0, 57);
    PICKS(u, 4, 0, 8, 9, 10, 11, 12, 13, 14, 15, 16, 40, 48, 49, 50, 51, 52, 53, 54, 55, 56);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&v));

    /* overlapping steps: extent smaller than what is in it */
    OK(MPI_Type_create_resized(t, 0, 2, &v));
    OK(MPI_Type_contiguous(3, v, &u));
    BOUNDS(u, 0, 6, 0, 10);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&v));

    /* nothing at all */
    OK(MPI_Type_contiguous(0, MPI_INT, &u));
    BOUNDS(u, 0, 0, 0, 0);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &u));
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));
}

/* Sub-arrays and distributed arrays, element by element against their definition. */
static void arrays(void)
{
    MPI_Datatype t;
    int sizes[3] = {4, 5, 3}, parts[3] = {2, 3, 2}, starts[3] = {1, 0, 1};
    for (int order = 0; order < 2; order++) {
        unsigned char memory[60], packed[60];
        int at = 0, n = 0;
        OK(MPI_Type_create_subarray(3, sizes, parts, starts, order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_BYTE, &t));
        BOUNDS(t, 0, 60, order ? 1 + 4 * 5 : 15 + 1, order ? (2 - 1) + 4 * 2 + 20 * 1 + 1 : 15 * 1 + 3 * 2 + 1 + 1);
        OK(MPI_Type_commit(&t));
        for (int i = 0; i < 60; i++)
            memory[i] = (unsigned char)i;
        OK(MPI_Pack(memory, 1, t, packed, 60, &at, MPI_COMM_WORLD));
        SAME(at, 12);
        for (int x = 0; x < (order ? parts[2] : parts[0]); x++)
            for (int y = 0; y < parts[1]; y++)
                for (int z = 0; z < (order ? parts[0] : parts[2]); z++) {
                    int i = order ? (starts[2] + x) * 20 + (starts[1] + y) * 4 + starts[0] + z
                                  : (starts[0] + x) * 15 + (starts[1] + y) * 3 + starts[2] + z;
                    SAME(packed[n++], i);
                }
        OK(MPI_Type_free(&t));
    }

    /* One dimension over three processes: blocks, cyclic, blocks dealt in turn; together they cover all. */
    for (int way = 0; way < 4; way++) {
        enum { GLOBAL = 17, PROCESSES = 3 };
        int owner[GLOBAL], covered = 0;
        for (int i = 0; i < GLOBAL; i++)
            owner[i] = way == 0 ? i / 6 : way == 1 ? i % 3 : way == 2 ? i / 2 % 3 : i / 7;
        for (int p = 0; p < PROCESSES; p++) {
            int global = GLOBAL, how = way == 0 || way == 3 ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
            int argument = way == 2 ? 2 : way == 3 ? 7 : MPI_DISTRIBUTE_DFLT_DARG, grid = PROCESSES, at = 0, size, n = 0;
            int memory[GLOBAL], packed[GLOBAL];
            OK(MPI_Type_create_darray(PROCESSES, p, 1, &global, &how, &argument, &grid, MPI_ORDER_C, MPI_INT, &t));
            OK(MPI_Type_commit(&t));
            MPI_Aint lb, extent;
            OK(MPI_Type_get_extent(t, &lb, &extent));
            SAME(lb, 0);
            SAME(extent, GLOBAL * 4);
            OK(MPI_Type_size(t, &size));
            for (int i = 0; i < GLOBAL; i++)
                memory[i] = i;
            OK(MPI_Pack(memory, 1, t, packed, sizeof packed, &at, MPI_COMM_WORLD));
            SAME(at, size);
            for (int i = 0; i < GLOBAL; i++)
                if (owner[i] == p)
                    SAME(packed[n++], i);
            SAME(size, 4 * n);
            covered += n;
            OK(MPI_Type_free(&t));
        }
        SAME(covered, GLOBAL);
    }

    /* Two dimensions, 2x3 processes, block by cyclic and an undistributed one, in both orders. */
    for (int order = 0; order < 2; order++)
        for (int p = 0; p < 6; p++) {
            int globals[3] = {5, 7, 2}, hows[3] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
            int arguments[3] = {MPI_DISTRIBUTE_DFLT_DARG, 2, MPI_DISTRIBUTE_DFLT_DARG}, grid[3] = {2, 3, 1};
            unsigned char memory[70], packed[70];
            int at = 0, n = 0, row = p / 3, column = p % 3; /* processes are always in C order */
            OK(MPI_Type_create_darray(6, p, 3, globals, hows, arguments, grid, order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_BYTE, &t));
            OK(MPI_Type_commit(&t));
            for (int i = 0; i < 70; i++)
                memory[i] = (unsigned char)i;
            OK(MPI_Pack(memory, 1, t, packed, 70, &at, MPI_COMM_WORLD));
            for (int i = 0; i < 70; i++) {
                int x = order ? i % 5 : i / 14, y = order ? i / 5 % 7 : i / 2 % 7;
                if (x / 3 == row && y / 2 % 3 == column)
                    SAME(packed[n++], i);
            }
            SAME(at, n);
            OK(MPI_Type_free(&t));
        }
}

/* What a sub-array or distributed array was made of comes back: the constants, whose values differ between
 * the ABIs, and the numbers among them, also the one that is another ABI's constant. */
static void array_contents(void)
{
    enum { N = 3, GLOBAL = 100, PROCESSES = 3 };
    const int orders[] = {MPI_ORDER_C, MPI_ORDER_FORTRAN};
    const int blocks[] = {MPI_DISTRIBUTE_DFLT_DARG, 1, 12, 15, 16, 17, 18, 19, 20, 56, 57, 121, 122, 123};
    int globals[N] = {GLOBAL, 2, 9}, grid[N] = {PROCESSES, 1, 2};
    int hows[N] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK};
    MPI_Count large_globals[N] = {GLOBAL, 2, 9}, counts[3 * N];
    int integers[4 + 4 * N];
    MPI_Datatype t, old;
    for (int o = 0; o < 2; o++)
        for (int b = 0; b < (int)(sizeof blocks / sizeof blocks[0]); b++) {
            int arguments[N] = {blocks[b], MPI_DISTRIBUTE_DFLT_DARG, 19 == MPI_DISTRIBUTE_DFLT_DARG ? 5 : 19};
            OK(MPI_Type_create_darray(6, 4, N, globals, hows, arguments, grid, orders[o], MPI_BYTE, &t));
            OK(MPI_Type_get_contents(t, 4 + 4 * N, 0, 1, integers, NULL, &old));
            CHECK(integers[0] == 6 && integers[1] == 4 && integers[2] == N && old == MPI_BYTE);
            for (int i = 0; i < N; i++) {
                SAME(integers[3 + i], globals[i]);
                SAME(integers[3 + N + i], hows[i]);
                SAME(integers[3 + 2 * N + i], arguments[i]);
                SAME(integers[3 + 3 * N + i], grid[i]);
            }
            SAME(integers[3 + 4 * N], orders[o]);
            OK(MPI_Type_free(&t));

            OK(MPI_Type_create_darray_c(6, 4, N, large_globals, hows, arguments, grid, orders[o], MPI_BYTE, &t));
            OK(MPI_Type_get_contents_c(t, 4 + 3 * N, 0, N, 1, integers, NULL, counts, &old));
            CHECK(integers[0] == 6 && integers[1] == 4 && integers[2] == N && old == MPI_BYTE);
            for (int i = 0; i < N; i++) {
                SAME(counts[i], large_globals[i]);
                SAME(integers[3 + i], hows[i]);
                SAME(integers[3 + N + i], arguments[i]);
                SAME(integers[3 + 2 * N + i], grid[i]);
            }
            SAME(integers[3 + 3 * N], orders[o]);
            OK(MPI_Type_free(&t));

            /* the blocks are as long as the argument says */
            int size = 0, mine = 0, length = blocks[b] == MPI_DISTRIBUTE_DFLT_DARG ? 1 : blocks[b];
            OK(MPI_Type_create_darray(PROCESSES, 1, 1, globals, hows, blocks + b, grid, orders[o], MPI_BYTE, &t));
            OK(MPI_Type_size(t, &size));
            for (int i = 0; i < GLOBAL; i++)
                mine += i / length % PROCESSES == 1;
            SAME(size, mine);
            OK(MPI_Type_free(&t));
        }

    int sizes[N] = {12, 56, 15}, parts[N] = {12, 15, 9}, starts[N] = {0, 19, 3};
    MPI_Count large[3][N] = {{12, 56, 15}, {12, 15, 9}, {0, 19, 3}};
    for (int o = 0; o < 2; o++) {
        OK(MPI_Type_create_subarray(N, sizes, parts, starts, orders[o], MPI_BYTE, &t));
        OK(MPI_Type_get_contents(t, 2 + 3 * N, 0, 1, integers, NULL, &old));
        SAME(integers[0], N);
        for (int i = 0; i < N; i++)
            CHECK(integers[1 + i] == sizes[i] && integers[1 + N + i] == parts[i] && integers[1 + 2 * N + i] == starts[i]);
        SAME(integers[1 + 3 * N], orders[o]);
        OK(MPI_Type_free(&t));
        OK(MPI_Type_create_subarray_c(N, large[0], large[1], large[2], orders[o], MPI_BYTE, &t));
        OK(MPI_Type_get_contents_c(t, 2, 0, 3 * N, 1, integers, NULL, counts, &old));
        CHECK(integers[0] == N && integers[1] == orders[o]);
        for (int i = 0; i < 3 * N; i++)
            SAME(counts[i], large[i / N][i % N]);
        OK(MPI_Type_free(&t));
    }
}

static void envelopes(void)
{
    int ni, na, nd, combiner;
    MPI_Datatype t, d[4];
    int integers[32];
    MPI_Aint addresses[8];
    OK(MPI_Type_get_envelope(MPI_DOUBLE, &ni, &na, &nd, &combiner));
    SAME(combiner, MPI_COMBINER_NAMED);
    CHECK(ni == 0 && na == 0 && nd == 0);

    OK(MPI_Type_vector(3, 2, 5, MPI_DOUBLE, &t));
    OK(MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_VECTOR && ni == 3 && na == 0 && nd == 1);
    OK(MPI_Type_get_contents(t, ni, na, nd, integers, addresses, d));
    CHECK(integers[0] == 3 && integers[1] == 2 && integers[2] == 5 && d[0] == MPI_DOUBLE);

    int lengths[] = {1, 2}, places[] = {3, 7};
    MPI_Aint far[] = {30, 70};
    MPI_Datatype kinds[] = {MPI_INT, t}, s, u;
    OK(MPI_Type_create_struct(2, lengths, far, kinds, &s));
    OK(MPI_Type_free(&t)); /* still part of the other */
    OK(MPI_Type_get_envelope(s, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_STRUCT && ni == 3 && na == 2 && nd == 2);
    OK(MPI_Type_get_contents(s, ni, na, nd, integers, addresses, d));
    CHECK(integers[0] == 2 && integers[1] == 1 && integers[2] == 2 && addresses[0] == 30 && addresses[1] == 70);
    CHECK(d[0] == MPI_INT);
    int inner;
    OK(MPI_Type_get_envelope(d[1], &ni, &na, &nd, &inner));
    SAME(inner, MPI_COMBINER_VECTOR);
    OK(MPI_Type_free(&d[1])); /* contents hands out references of its own */

    struct {
        int combiner, ni, na, nd;
    } want[16];
    MPI_Datatype made[16];
    int n = 0, sizes[] = {4, 4}, parts[] = {2, 2}, starts[] = {1, 1};
    int hows[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE}, arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    int grid[] = {1, 1};
#define MADE(call, c, i, a, k) \
    do { \
        OK(call); \
        want[n].combiner = c, want[n].ni = i, want[n].na = a, want[n].nd = k; \
        made[n++] = u; \
    } while (0)
    MADE(MPI_Type_dup(s, &u), MPI_COMBINER_DUP, 0, 0, 1);
    MADE(MPI_Type_contiguous(9, s, &u), MPI_COMBINER_CONTIGUOUS, 1, 0, 1);
    MADE(MPI_Type_create_hvector(2, 3, 44, s, &u), MPI_COMBINER_HVECTOR, 2, 1, 1);
    MADE(MPI_Type_indexed(2, lengths, places, s, &u), MPI_COMBINER_INDEXED, 5, 0, 1);
    MADE(MPI_Type_create_hindexed(2, lengths, far, s, &u), MPI_COMBINER_HINDEXED, 3, 2, 1);
    MADE(MPI_Type_create_indexed_block(2, 4, places, s, &u), MPI_COMBINER_INDEXED_BLOCK, 4, 0, 1);
    MADE(MPI_Type_create_hindexed_block(2, 4, far, s, &u), MPI_COMBINER_HINDEXED_BLOCK, 2, 2, 1);
    MADE(MPI_Type_create_resized(s, -8, 200, &u), MPI_COMBINER_RESIZED, 0, 2, 1);
    MADE(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &u), MPI_COMBINER_SUBARRAY, 8, 0, 1);
    MADE(MPI_Type_create_darray(1, 0, 2, sizes, hows, arguments, grid, MPI_ORDER_C, MPI_INT, &u), MPI_COMBINER_DARRAY, 12, 0, 1);
    for (int i = 0; i < n; i++) {
        OK(MPI_Type_get_envelope(made[i], &ni, &na, &nd, &combiner));
        SAME(combiner, want[i].combiner);
        SAME(ni, want[i].ni);
        SAME(na, want[i].na);
        SAME(nd, want[i].nd);
        OK(MPI_Type_get_contents(made[i], ni, na, nd, integers, addresses, d));
        int named, w, x, y;
        OK(MPI_Type_get_envelope(d[0], &w, &x, &y, &named));
        if (named != MPI_COMBINER_NAMED) {
            SAME(named, MPI_COMBINER_STRUCT);
            OK(MPI_Type_free(&d[0]));
        }
        switch (combiner) {
        case MPI_COMBINER_HVECTOR:
            CHECK(integers[0] == 2 && integers[1] == 3 && addresses[0] == 44);
            break;
        case MPI_COMBINER_INDEXED:
            CHECK(integers[0] == 2 && integers[1] == 1 && integers[2] == 2 && integers[3] == 3 && integers[4] == 7);
            break;
        case MPI_COMBINER_RESIZED:
            CHECK(addresses[0] == -8 && addresses[1] == 200);
            break;
        case MPI_COMBINER_SUBARRAY:
            CHECK(integers[0] == 2 && integers[1] == 4 && integers[3] == 2 && integers[5] == 1 && integers[7] == MPI_ORDER_C);
            break;
        case MPI_COMBINER_DARRAY:
            CHECK(integers[0] == 1 && integers[1] == 0 && integers[2] == 2 && integers[3] == 4 && integers[11] == MPI_ORDER_C);
            break;
        }
        OK(MPI_Type_free(&made[i]));
    }
    OK(MPI_Type_free(&s));

    /* made with large counts: asked with large counts */
    MPI_Count nci, nca, ncc, ncd, counts[4], block = 1;
    MPI_Count at = (MPI_Count)1 << 40;
    OK(MPI_Type_create_hindexed_c(1, &block, &at, MPI_INT, &t));
    OK(MPI_Type_get_envelope_c(t, &nci, &nca, &ncc, &ncd, &combiner));
    CHECK(combiner == MPI_COMBINER_HINDEXED && nci == 0 && nca == 0 && ncc == 3 && ncd == 1);
    OK(MPI_Type_get_contents_c(t, nci, nca, ncc, ncd, integers, addresses, counts, d));
    CHECK(counts[0] == 1 && counts[1] == 1 && counts[2] == at && d[0] == MPI_INT);
    MPI_Count lb, extent;
    OK(MPI_Type_get_extent_c(t, &lb, &extent));
    CHECK(lb == at && extent == 4);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_contents(t, 32, 8, 4, integers, addresses, d), MPI_ERR_TYPE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Type_free(&t));
}

static void named(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Datatype t, u;
    static const struct {
        MPI_Datatype type;
        const char *name;
        size_t size;
    } known[] = {
        {MPI_INT, "MPI_INT", sizeof(int)},
        {MPI_CHAR, "MPI_CHAR", 1},
        {MPI_DOUBLE, "MPI_DOUBLE", 8},
        {MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE", sizeof(long double)},
        {MPI_BYTE, "MPI_BYTE", 1},
        {MPI_PACKED, "MPI_PACKED", 1},
        {MPI_UINT64_T, "MPI_UINT64_T", 8},
        {MPI_WCHAR, "MPI_WCHAR", sizeof(wchar_t)},
        {MPI_AINT, "MPI_AINT", sizeof(MPI_Aint)},
        {MPI_COUNT, "MPI_COUNT", sizeof(MPI_Count)},
        {MPI_OFFSET, "MPI_OFFSET", sizeof(MPI_Offset)},
        {MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", 16},
        {MPI_C_COMPLEX, "MPI_C_COMPLEX", 8},
        {MPI_C_FLOAT_COMPLEX, "MPI_C_COMPLEX", 8}, /* a synonym */
        {MPI_2INT, "MPI_2INT", 8},
        {MPI_DOUBLE_INT, "MPI_DOUBLE_INT", 12},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int size;
        OK(MPI_Type_get_name(known[i].type, name, &length));
        CHECK(strcmp(name, known[i].name) == 0 && (size_t)length == strlen(name));
        OK(MPI_Type_size(known[i].type, &size));
        SAME(size, known[i].size);
        OK(MPI_Type_commit(&(MPI_Datatype){known[i].type})); /* allowed, does nothing */
    }
    OK(MPI_Type_contiguous(2, MPI_INT, &t));
    OK(MPI_Type_get_name(t, name, &length));
    SAME(length, 0);
    OK(MPI_Type_set_name(t, "pair"));
    OK(MPI_Type_get_name(t, name, &length));
    CHECK(strcmp(name, "pair") == 0);
    /* a duplicate of a committed type is committed */
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_dup(t, &u));
    OK(MPI_Type_free(&t));
    CHECK(t == MPI_DATATYPE_NULL);
    int out[2] = {1, 2}, in[2] = {0, 0};
    OK(MPI_Sendrecv(out, 1, u, t_rank, 0, in, 1, u, t_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(in[0] == 1 && in[1] == 2);
    OK(MPI_Type_free(&u));
    /* pairs have the C compiler's layout */
    BOUNDS(MPI_DOUBLE_INT, 0, 16, 0, 12);
    BOUNDS(MPI_SHORT_INT, 0, 8, 0, 8);
    BOUNDS(MPI_LONG_DOUBLE_INT, 0, 32, 0, 20);
}

static void by_size(void)
{
    MPI_Datatype t;
    int size;
    static const int integers[] = {1, 2, 4, 8}, reals[] = {4, 8}, complexes[] = {8, 16};
    for (int i = 0; i < 4; i++) {
        OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, integers[i], &t));
        OK(MPI_Type_size(t, &size));
        SAME(size, integers[i]);
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, reals[i], &t));
        OK(MPI_Type_size(t, &size));
        SAME(size, reals[i]);
        OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, complexes[i], &t));
        OK(MPI_Type_size(t, &size));
        SAME(size, complexes[i]);
    }
}

/* A receive that stops inside a type: whole elements, whole types. */
static void partial(void)
{
    MPI_Datatype t;
    MPI_Status s;
    int lengths[] = {1, 1}, elements, count;
    MPI_Aint places[] = {0, 8};
    MPI_Datatype kinds[] = {MPI_INT, MPI_DOUBLE};
    unsigned char buffer[64] = {0};
    MPI_Count large;
    OK(MPI_Type_create_struct(2, lengths, places, kinds, &t));
    OK(MPI_Type_commit(&t));
    MPI_Datatype half;
    OK(MPI_Type_create_struct(1, lengths, places, kinds, &half)); /* one int: 1.5 pairs are pair + int */
    OK(MPI_Type_free(&half));
    int three_lengths[] = {1, 1};
    MPI_Aint three_places[] = {0, 16};
    MPI_Datatype three_kinds[] = {t, MPI_INT}, three;
    OK(MPI_Type_create_struct(2, three_lengths, three_places, three_kinds, &three));
    OK(MPI_Type_commit(&three));
    OK(MPI_Sendrecv(buffer, 1, three, t_rank, 0, buffer + 24, 2, t, t_rank, 0, MPI_COMM_WORLD, &s));
    OK(MPI_Get_elements(&s, t, &elements));
    SAME(elements, 3);
    OK(MPI_Get_elements_c(&s, t, &large));
    SAME(large, 3);
    OK(MPI_Get_elements_x(&s, t, &large));
    SAME(large, 3);
    OK(MPI_Get_count(&s, t, &count));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Get_count(&s, three, &count));
    SAME(count, 1);
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&t));
}

static void large_counts(void)
{
    MPI_Datatype t, u;
    MPI_Count size, lb, extent, n = (MPI_Count)3 << 31;
    int small;
    OK(MPI_Type_contiguous_c(n, MPI_INT, &t));
    OK(MPI_Type_size_c(t, &size));
    SAME(size, 4 * n);
    OK(MPI_Type_size(t, &small));
    SAME(small, MPI_UNDEFINED);
    OK(MPI_Type_get_extent_c(t, &lb, &extent));
    SAME(extent, 4 * n);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_vector_c(n, 1, 2, MPI_BYTE, &t));
    OK(MPI_Type_size_c(t, &size));
    SAME(size, n);
    OK(MPI_Type_get_extent_c(t, &lb, &extent));
    SAME(extent, 2 * n - 1);
    OK(MPI_Type_create_resized_c(t, 0, 3 * n, &u));
    OK(MPI_Type_get_extent_c(u, &lb, &extent));
    SAME(extent, 3 * n);
    OK(MPI_Type_commit(&u));
    OK(MPI_Type_free(&t));
    OK(MPI_Type_free(&u));
}

static void addresses(void)
{
    int array[10];
    MPI_Aint a, b;
    OK(MPI_Get_address(&array[2], &a));
    OK(MPI_Get_address(&array[7], &b));
    SAME(MPI_Aint_diff(b, a), 20);
    SAME(MPI_Aint_add(a, 20), b);
    SAME(a, (MPI_Aint)&array[2]);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    constructors();
    arrays();
    array_contents();
    envelopes();
    named();
    by_size();
    partial();
    large_counts();
    addresses();
    return t_done("datatype");
}
