/* Predefined operations on every type that the standard defines them for, MINLOC and MAXLOC on all
 * pairs, user-defined operations (also with large counts), commutativity.
 *
 * An optional type that the library does not have is one whose MPI_Type_size is MPI_UNDEFINED.
 */
#include "check.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 37 };

static int tested, absent;

static int present(MPI_Datatype type, size_t size)
{
    int got = -1;
    OK(MPI_Type_size(type, &got));
    if (got == MPI_UNDEFINED || got == 0) {
        absent++;
        return 0;
    }
    if ((size_t)got != size)
        return 0; /* a Fortran kind of another width than the one we compare with */
    tested++;
    return 1;
}

/* One type against one operation, computed once by the library and once in C; over a vector that is
 * longer than any machine register, at an odd offset of elements. */
#define OPERATION(type, mpi, op, expression) \
    do { \
        type a[N + 1], b[N + 1], want[N + 1]; \
        memset(a, 0, sizeof a), memset(b, 0, sizeof b), memset(want, 0, sizeof want); \
        for (int i = 0; i < N + 1; i++) { \
            a[i] = (type)(1 + (i * 7) % 5), b[i] = (type)((i * 3) % 4); \
            type x = a[i], y = b[i]; \
            want[i] = i == 0 ? y : (type)(expression); \
        } \
        OK(MPI_Reduce_local(a + 1, b + 1, N, mpi, op)); \
        for (int i = 0; i < N + 1; i++) \
            if (!(b[i] == want[i])) \
                t_fail(__FILE__, __LINE__, "%s with %s: element %d is wrong", #op, #mpi, i); \
    } while (0)

#define ARITHMETIC(type, mpi) \
    OPERATION(type, mpi, MPI_SUM, x + y); \
    OPERATION(type, mpi, MPI_PROD, x *y)
#define ORDER(type, mpi) \
    OPERATION(type, mpi, MPI_MAX, x > y ? x : y); \
    OPERATION(type, mpi, MPI_MIN, x < y ? x : y)
#define BITWISE(type, mpi) \
    OPERATION(type, mpi, MPI_BAND, x &y); \
    OPERATION(type, mpi, MPI_BOR, x | y); \
    OPERATION(type, mpi, MPI_BXOR, x ^ y)
#define LOGICALLY(type, mpi) \
    OPERATION(type, mpi, MPI_LAND, x &&y); \
    OPERATION(type, mpi, MPI_LOR, x || y); \
    OPERATION(type, mpi, MPI_LXOR, !x != !y)

#define INTEGER(type, mpi) \
    if (present(mpi, sizeof(type))) { \
        ARITHMETIC(type, mpi); \
        ORDER(type, mpi); \
        BITWISE(type, mpi); \
        LOGICALLY(type, mpi); \
    }
#define FORTRAN_INTEGER(type, mpi) \
    if (present(mpi, sizeof(type))) { \
        ARITHMETIC(type, mpi); \
        ORDER(type, mpi); \
        BITWISE(type, mpi); \
    }
#define FLOATING(type, mpi) \
    if (present(mpi, sizeof(type))) { \
        ARITHMETIC(type, mpi); \
        ORDER(type, mpi); \
    }
#define COMPLEX(type, mpi) \
    if (present(mpi, sizeof(type))) { \
        ARITHMETIC(type, mpi); \
    }

static void c_integers(void)
{
    INTEGER(int, MPI_INT);
    INTEGER(long, MPI_LONG);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG_INT);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
}

static void more_integers(void)
{
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
    FORTRAN_INTEGER(MPI_Aint, MPI_AINT);
    FORTRAN_INTEGER(MPI_Offset, MPI_OFFSET);
    FORTRAN_INTEGER(MPI_Count, MPI_COUNT);
    FORTRAN_INTEGER(int32_t, MPI_INTEGER);
    FORTRAN_INTEGER(int8_t, MPI_INTEGER1);
    FORTRAN_INTEGER(int16_t, MPI_INTEGER2);
    FORTRAN_INTEGER(int32_t, MPI_INTEGER4);
    FORTRAN_INTEGER(int64_t, MPI_INTEGER8);
    FORTRAN_INTEGER(__int128, MPI_INTEGER16);
}

static void floats(void)
{
    FLOATING(float, MPI_FLOAT);
    FLOATING(double, MPI_DOUBLE);
    FLOATING(long double, MPI_LONG_DOUBLE);
    FLOATING(float, MPI_REAL);
    FLOATING(double, MPI_DOUBLE_PRECISION);
    FLOATING(float, MPI_REAL4);
    FLOATING(double, MPI_REAL8);
#ifdef __FLT16_MAX__
    FLOATING(_Float16, MPI_REAL2);
#ifdef MPIX_C_FLOAT16
    FLOATING(_Float16, MPIX_C_FLOAT16);
#endif
#endif
}

static void complexes(void)
{
    COMPLEX(float complex, MPI_C_COMPLEX);
    COMPLEX(float complex, MPI_C_FLOAT_COMPLEX);
    COMPLEX(double complex, MPI_C_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
    COMPLEX(float complex, MPI_COMPLEX);
    COMPLEX(double complex, MPI_DOUBLE_COMPLEX);
    COMPLEX(float complex, MPI_COMPLEX8);
    COMPLEX(double complex, MPI_COMPLEX16);
    COMPLEX(float complex, MPI_CXX_FLOAT_COMPLEX);
    COMPLEX(double complex, MPI_CXX_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_CXX_LONG_DOUBLE_COMPLEX);
#ifdef __FLT16_MAX__
    COMPLEX(_Complex _Float16, MPI_COMPLEX4);
#endif
}

static void logicals(void)
{
    if (present(MPI_C_BOOL, sizeof(bool))) {
        LOGICALLY(bool, MPI_C_BOOL);
    }
    if (present(MPI_CXX_BOOL, sizeof(bool))) {
        LOGICALLY(bool, MPI_CXX_BOOL);
    }
    BITWISE(unsigned char, MPI_BYTE);
    /* Fortran's truth values: compared as truth, whatever pattern stands for it */
    static const MPI_Datatype kinds[] = {MPI_LOGICAL, MPI_LOGICAL4};
    for (int k = 0; k < 2; k++)
        if (present(kinds[k], sizeof(int))) {
            int no = 0, yes = 1, got = 0;
            got = yes;
            OK(MPI_Reduce_local(&no, &got, 1, kinds[k], MPI_LAND));
            SAME(got, 0);
            got = no;
            OK(MPI_Reduce_local(&yes, &got, 1, kinds[k], MPI_LOR));
            CHECK(got != 0);
            got = yes;
            OK(MPI_Reduce_local(&yes, &got, 1, kinds[k], MPI_LXOR));
            SAME(got, 0);
        }
}

/* A pair as the standard lays it out in C: the value, then an int (or a second value of the type). */
#define PAIR(value, index, mpi) \
    do { \
        struct { \
            value v; \
            index i; \
        } a[N], b[N], c[N]; \
        int size_; \
        OK(MPI_Type_size(mpi, &size_)); \
        if (size_ == MPI_UNDEFINED || size_ == 0) { \
            absent++; \
            break; \
        } \
        SAME(size_, sizeof(value) + sizeof(index)); \
        tested++; \
        memset(a, 0, sizeof a), memset(b, 0, sizeof b), memset(c, 0, sizeof c); \
        for (int k = 0; k < N; k++) { \
            a[k].v = (value)(k % 3), b[k].v = c[k].v = (value)(k % 2); \
            a[k].i = (index)(k % 7), b[k].i = c[k].i = (index)(3); \
        } \
        OK(MPI_Reduce_local(a, b, N, mpi, MPI_MAXLOC)); \
        OK(MPI_Reduce_local(a, c, N, mpi, MPI_MINLOC)); \
        for (int k = 0; k < N; k++) { \
            value x = (value)(k % 3), y = (value)(k % 2); \
            index i = (index)(k % 7), j = (index)3, least = i < j ? i : j; \
            if (b[k].v != (x > y ? x : y) || b[k].i != (x > y ? i : x < y ? j : least)) \
                t_fail(__FILE__, __LINE__, "MPI_MAXLOC with %s: pair %d", #mpi, k); \
            if (c[k].v != (x < y ? x : y) || c[k].i != (x < y ? i : x > y ? j : least)) \
                t_fail(__FILE__, __LINE__, "MPI_MINLOC with %s: pair %d", #mpi, k); \
        } \
    } while (0)

static void pairs(void)
{
    PAIR(float, int, MPI_FLOAT_INT);
    PAIR(double, int, MPI_DOUBLE_INT);
    PAIR(long, int, MPI_LONG_INT);
    PAIR(int, int, MPI_2INT);
    PAIR(short, int, MPI_SHORT_INT);
    PAIR(long double, int, MPI_LONG_DOUBLE_INT);
    PAIR(float, float, MPI_2REAL);
    PAIR(double, double, MPI_2DOUBLE_PRECISION);
    PAIR(int, int, MPI_2INTEGER);

    struct {
        double v;
        int i;
    } mine[2], best[2];
    memset(mine, 0, sizeof mine), memset(best, 0, sizeof best);
    mine[0].v = (t_rank * 5) % 7, mine[0].i = t_rank;
    mine[1].v = 4.0, mine[1].i = t_size - t_rank;
    OK(MPI_Allreduce(mine, best, 2, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    int where = 0;
    for (int r = 1; r < t_size; r++)
        if ((r * 5) % 7 > (where * 5) % 7)
            where = r;
    SAME(best[0].i, where);
    CHECK(best[0].v == (where * 5) % 7);
    SAME(best[1].i, 1); /* equal values: the least index */
}

/* Operations that see who is on the left: subtraction of a running pair would hide mistakes, so
 * strings of ranks are joined.  A word holds up to eight digits. */
static void join(void *in, void *inout, int *n, MPI_Datatype *type)
{
    CHECK(*type == MPI_UINT64_T);
    uint64_t *a = in, *b = inout;
    for (int i = 0; i < *n; i++) {
        uint64_t scale = 1;
        while (scale <= b[i])
            scale *= 10;
        b[i] += a[i] * scale;
    }
}

static int large_calls;

static void join_large(void *in, void *inout, MPI_Count *n, MPI_Datatype *type)
{
    CHECK(*type == MPI_UINT64_T);
    large_calls++;
    uint64_t *a = in, *b = inout;
    for (MPI_Count i = 0; i < *n; i++) {
        uint64_t scale = 1;
        while (scale <= b[i])
            scale *= 10;
        b[i] += a[i] * scale;
    }
}

static void user_defined(void)
{
    MPI_Op small, large;
    int commutes = -1;
    OK(MPI_Op_create(join, 0, &small));
    OK(MPI_Op_create_c(join_large, 0, &large));
    OK(MPI_Op_commutative(small, &commutes));
    CHECK(!commutes);
    OK(MPI_Op_commutative(MPI_SUM, &commutes));
    CHECK(commutes);
    if (t_size <= 8) {
        uint64_t mine[3], all[3], want = 0;
        for (int r = 0; r < t_size; r++)
            want = want * 10 + (uint64_t)r + 1;
        for (int way = 0; way < 2; way++) {
            mine[0] = mine[1] = mine[2] = (uint64_t)t_rank + 1;
            memset(all, 0, sizeof all);
            OK(MPI_Allreduce(mine, all, 3, MPI_UINT64_T, way ? large : small, MPI_COMM_WORLD));
            CHECK(all[0] == want && all[1] == want && all[2] == want);
            OK(MPI_Allreduce_c(mine, all, 3, MPI_UINT64_T, way ? large : small, MPI_COMM_WORLD));
            CHECK(all[2] == want);
        }
        int total = 0; /* not every rank has to combine */
        OK(MPI_Allreduce(&large_calls, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(t_size == 1 || total > 0);
    }
    uint64_t a = 12, b = 34;
    OK(MPI_Reduce_local(&a, &b, 1, MPI_UINT64_T, small));
    CHECK(b == 1234);
    b = 34;
    OK(MPI_Reduce_local_c(&a, &b, 1, MPI_UINT64_T, large));
    CHECK(b == 1234);

    /* freed while a collective still uses it */
    MPI_Request r;
    uint64_t mine = (uint64_t)t_rank + 1, all = 0;
    MPI_Op other;
    OK(MPI_Op_create(join, 0, &other));
    OK(MPI_Iallreduce(&mine, &all, 1, MPI_UINT64_T, other, MPI_COMM_WORLD, &r));
    OK(MPI_Op_free(&other));
    CHECK(other == MPI_OP_NULL);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Op_free(&small));
    OK(MPI_Op_free(&large));
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    c_integers();
    more_integers();
    floats();
    complexes();
    logicals();
    pairs();
    user_defined();
    CHECK(tested >= 40); /* all of C's */
    return t_done("op");
}
