/* Reductions with operations of byte code that the kernel's receive path runs (YAMABIKO_CAD=softirq), by a kaccd of the test's own: more operations than
 * a context has at once, on integers of all lengths and signs, on numbers whose sum is exact, such as do not commute, on elements with gaps;
 * and such as are not for the kernel. MPI_T's counter says of each whether it ran there; what comes out is compared with what C does.
 *
 * Argument "killed": kaccd is killed in the middle. "stopped": it answers no more. "many": there are more communicators than a user may have contexts.
 */
#include "check.h"
#ifdef YAMABIKO
#include "counters.h"
#include "kaccd.h"
#include <yamabiko.h>

enum { WORDS = 64 };
#define BC(name, ...) YAMABIKO_BC_##name(__VA_ARGS__)
#define I32 YAMABIKO_BC_I32
#define I64 YAMABIKO_BC_I64
#define U32 YAMABIKO_BC_U32
#define U64 YAMABIKO_BC_U64
#define F64 YAMABIKO_BC_F64

static int here; /* whether there is a kaccd */

/* How many collectives this rank says that the kernel's receive path ran. */
static unsigned long long ran(void)
{
    return counted("yamabiko_collectives_softirq");
}

typedef void Fold(const void *, void *); /* b = a op b */
typedef void Datum(void *, unsigned char, unsigned char);

typedef struct {
    const char *name;
    size_t bytes; /* of an element */
    size_t used;  /* of these, all but a gap at the end */
    Fold *fold;
    Datum *datum;
    int kernel; /* whether the kernel's receive path has all it needs */
    int most;   /* elements of it at most */
    MPI_Datatype type;
    uint64_t code[WORDS];
    MPI_Op op;
} Case;

/* Of each length: the greater number, in a roundabout way, where there is a sign; a + b + a b, which is associative too, where there is none. */
#define DATUM(name, T)                                                                                                                  \
    static void name##_datum(void *to, unsigned char x, unsigned char y)                                                                \
    {                                                                                                                                   \
        *(T *)to = (T)((uint64_t)x * 0x0101010101010101u + y * 77u);                                                                    \
    }
#define SIGNED(name, T, TYPE)                                                                                                           \
    static void name##_fold(const void *a, void *b)                                                                                     \
    {                                                                                                                                   \
        *(T *)b = *(const T *)a < *(T *)b ? *(T *)b : *(const T *)a;                                                                    \
    }                                                                                                                                   \
    DATUM(name, T)                                                                                                                      \
    static const uint64_t name##_code[] = {                                                                                             \
        BC(BEGIN, sizeof(T)), BC(LOAD_IN, TYPE, 3, 0), BC(LOAD_INOUT, TYPE, 15, 0),                                                     \
        BC(LT, I64, 0, 3, 15), BC(NEG, I64, 0, 0), BC(SUB, I64, 1, 3, 15), BC(AND, I64, 0, 0, 1), BC(SUB, I64, 0, 3, 0),                \
        BC(STORE, TYPE, 0, 0),                                                                                                          \
    };
#define UNSIGNED(name, T, TYPE)                                                                                                         \
    static void name##_fold(const void *a, void *b)                                                                                     \
    {                                                                                                                                   \
        uint64_t x = *(const T *)a, y = *(T *)b;                                                                                        \
        *(T *)b = (T)(x + y + x * y);                                                                                                   \
    }                                                                                                                                   \
    DATUM(name, T)                                                                                                                      \
    static const uint64_t name##_code[] = {                                                                                             \
        BC(BEGIN, sizeof(T)), BC(LOAD_IN, TYPE, 3, 0), BC(LOAD_INOUT, TYPE, 15, 0),                                                     \
        BC(ADD, U64, 0, 3, 15), BC(MUL, U64, 3, 3, 15), BC(ADD, U64, 0, 0, 3), BC(STORE, TYPE, 0, 0),                                   \
    };
SIGNED(i8, int8_t, YAMABIKO_BC_I8)
SIGNED(i16, int16_t, YAMABIKO_BC_I16)
SIGNED(i32, int32_t, I32)
SIGNED(i64, int64_t, I64)
UNSIGNED(u8, uint8_t, YAMABIKO_BC_U8)
UNSIGNED(u16, uint16_t, YAMABIKO_BC_U16)
UNSIGNED(u32, uint32_t, U32)
UNSIGNED(u64, uint64_t, U64)

/* (a, x^i), (b, x^j) -> (a x^j + b, x^(i+j)): does not commute. */
typedef struct {
    uint32_t sum, power;
} Horner;

static const uint64_t horner_code[] = {
    BC(BEGIN, sizeof(Horner)),
    BC(LOAD_IN, U32, 0, 0), BC(LOAD_IN, U32, 1, 4), BC(LOAD_INOUT, U32, 2, 0), BC(LOAD_INOUT, U32, 3, 4),
    BC(MUL, U64, 4, 0, 3), BC(ADD, U64, 4, 4, 2), BC(STORE, U32, 4, 0),
    BC(MUL, U64, 4, 1, 3), BC(STORE, U32, 4, 4),
};

static void horner_fold(const void *a_, void *b_)
{
    const Horner *a = a_;
    Horner *b = b_;
    b->sum = a->sum * b->power + b->sum;
    b->power *= a->power;
}

static void horner_datum(void *to, unsigned char x, unsigned char y)
{
    *(Horner *)to = (Horner){x * 16777259u, y * 2654435761u | 1};
}

/* The greatest value and the least place of one, and a gap. */
typedef struct {
    double value;
    int32_t at; /* four bytes follow that are nobody's */
} Best;

static void best_fold(const void *a_, void *b_)
{
    const Best *a = a_;
    Best *b = b_;
    if (a->value > b->value || (a->value == b->value && a->at < b->at))
        b->value = a->value, b->at = a->at;
}

static void best_datum(void *to, unsigned char x, unsigned char y)
{
    ((Best *)to)->value = x / 2 - 40.5;
    ((Best *)to)->at = y * 3 - 300;
}

/* Exact sums and products; and these once more divided by 1, as quotients are not for the kernel. */
static void sum_fold(const void *a, void *b)
{
    *(double *)b += *(const double *)a;
}

static void product_fold(const void *a, void *b)
{
    *(double *)b *= *(const double *)a;
}

static void sum_datum(void *to, unsigned char x, unsigned char y)
{
    *(double *)to = x * 0.25 - y;
}

static void small_datum(void *to, unsigned char x, unsigned char y)
{
    *(double *)to = 1 + x % 2 + y % 3;
}

/* A field that lies across the boundaries of its size. */
typedef struct {
    unsigned char tag, bytes[4], more[3];
} Packed;

static void packed_fold(const void *a_, void *b_)
{
    const Packed *a = a_;
    Packed *b = b_;
    uint32_t x, y;
    memcpy(&x, a->bytes, 4), memcpy(&y, b->bytes, 4);
    y += x;
    memcpy(b->bytes, &y, 4);
}

static void packed_datum(void *to, unsigned char x, unsigned char y)
{
    memset(to, 0, sizeof(Packed));
    memset(((Packed *)to)->bytes, x ^ y, 4);
}

/* A sum, with so many zeros that only few elements of it are for the kernel. */
static void long_fold(const void *a, void *b)
{
    *(int32_t *)b = (int32_t)(*(const uint32_t *)a + *(uint32_t *)b);
}

enum { CASES = 15 };
static Case cases[CASES] = {
    {.name = "i8", .bytes = 1, .used = 1, .fold = i8_fold, .datum = i8_datum, .kernel = 1, .most = 512},
    {.name = "u8", .bytes = 1, .used = 1, .fold = u8_fold, .datum = u8_datum, .kernel = 1, .most = 682},
    {.name = "i16", .bytes = 2, .used = 2, .fold = i16_fold, .datum = i16_datum, .kernel = 1, .most = 512},
    {.name = "u16", .bytes = 2, .used = 2, .fold = u16_fold, .datum = u16_datum, .kernel = 1, .most = 512},
    {.name = "i32", .bytes = 4, .used = 4, .fold = i32_fold, .datum = i32_datum, .kernel = 1, .most = 256},
    {.name = "u32", .bytes = 4, .used = 4, .fold = u32_fold, .datum = u32_datum, .kernel = 1, .most = 256},
    {.name = "i64", .bytes = 8, .used = 8, .fold = i64_fold, .datum = i64_datum, .kernel = 1, .most = 128},
    {.name = "u64", .bytes = 8, .used = 8, .fold = u64_fold, .datum = u64_datum, .kernel = 1, .most = 128},
    {.name = "horner", .bytes = sizeof(Horner), .used = sizeof(Horner), .fold = horner_fold, .datum = horner_datum, .kernel = 1, .most = 128},
    {.name = "best", .bytes = sizeof(Best), .used = 12, .fold = best_fold, .datum = best_datum, .kernel = 1, .most = 64},
    {.name = "sum", .bytes = 8, .used = 8, .fold = sum_fold, .datum = sum_datum, .kernel = 1, .most = 128},
    {.name = "quotient", .bytes = 8, .used = 8, .fold = product_fold, .datum = small_datum, .kernel = 0, .most = 128},
    {.name = "packed", .bytes = sizeof(Packed), .used = sizeof(Packed), .fold = packed_fold, .datum = packed_datum, .kernel = 0, .most = 128},
    {.name = "long", .bytes = 4, .used = 4, .fold = long_fold, .datum = i32_datum, .kernel = 1, .most = 95},
    {.name = "product", .bytes = 8, .used = 8, .fold = product_fold, .datum = small_datum, .kernel = 1, .most = 128},
};
static int made;

static void make(Case *c, MPI_Datatype type, const uint64_t *code, size_t bytes)
{
    CHECK(bytes <= sizeof c->code);
    memcpy(c->code, code, bytes);
    c->type = type;
    OK(yamabiko_op_create_bytecode(c->code, bytes, c->fold != horner_fold, &c->op));
    made++;
}

#define MAKE(type, code) make(&cases[made], type, code, sizeof code)

static void make_cases(void)
{
    const uint64_t best[] = {
        BC(BEGIN, sizeof(Best)),
        BC(LOAD_IN, F64, 0, 0), BC(LOAD_IN, I32, 1, 8), BC(LOAD_INOUT, F64, 2, 0), BC(LOAD_INOUT, I32, 3, 8),
        BC(LT, F64, 4, 2, 0), BC(EQ, F64, 5, 2, 0), BC(LT, I64, 6, 1, 3), BC(AND, I64, 5, 5, 6), BC(OR, I64, 4, 4, 5),
        BC(SELECT, F64, 10, 4, 0, 2), BC(STORE, F64, 10, 0), BC(SELECT, I64, 11, 4, 1, 3), BC(STORE, I32, 11, 8),
    };
    const uint64_t sum[] = {BC(BEGIN, 8), BC(LOAD_IN, F64, 0, 0), BC(LOAD_INOUT, F64, 1, 0), BC(ADD, F64, 0, 0, 1), BC(STORE, F64, 0, 0)};
    const uint64_t product[] = {BC(BEGIN, 8), BC(LOAD_IN, F64, 0, 0), BC(LOAD_INOUT, F64, 1, 0), BC(MUL, F64, 0, 0, 1), BC(STORE, F64, 0, 0)};
    const uint64_t quotient[] = {
        BC(BEGIN, 8), BC(LOAD_IN, F64, 0, 0), BC(LOAD_INOUT, F64, 1, 0), BC(MUL, F64, 0, 0, 1),
        BC(CONST_F64, 2, 1.0), BC(DIV, F64, 0, 0, 2), BC(STORE, F64, 0, 0),
    };
    const uint64_t packed[] = {BC(BEGIN, 8), BC(LOAD_IN, U32, 0, 1), BC(LOAD_INOUT, U32, 1, 1), BC(ADD, U64, 0, 0, 1), BC(STORE, U32, 0, 1)};
    const uint64_t many[] = {
        BC(BEGIN, 4), BC(LOAD_IN, I32, 0, 0), BC(LOAD_INOUT, I32, 1, 0), BC(SUB, I64, 2, 0, 0), BC(ADD, I64, 1, 0, 1),
        [5 ... 42] = BC(ADD, I64, 1, 1, 2), BC(STORE, I32, 1, 0),
    };
    MPI_Datatype pair, best_type, horner_type, packed_type;
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &horner_type));
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_INT32_T}, &pair));
    OK(MPI_Type_create_resized(pair, 0, sizeof(Best), &best_type));
    OK(MPI_Type_contiguous(8, MPI_BYTE, &packed_type));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_commit(&horner_type));
    OK(MPI_Type_commit(&best_type));
    OK(MPI_Type_commit(&packed_type));
    MAKE(MPI_INT8_T, i8_code), MAKE(MPI_UINT8_T, u8_code), MAKE(MPI_INT16_T, i16_code), MAKE(MPI_UINT16_T, u16_code);
    MAKE(MPI_INT32_T, i32_code), MAKE(MPI_UINT32_T, u32_code), MAKE(MPI_INT64_T, i64_code), MAKE(MPI_UINT64_T, u64_code);
    MAKE(horner_type, horner_code), MAKE(best_type, best), MAKE(MPI_DOUBLE, sum), MAKE(MPI_DOUBLE, quotient);
    MAKE(packed_type, packed), MAKE(MPI_INT32_T, many), MAKE(MPI_DOUBLE, product);
}

static unsigned sequence;

static void fill(const Case *c, void *to, unsigned who, int n)
{
    memset(to, 0x5A, (size_t)n * c->bytes);
    for (int i = 0; i < n; i++)
        c->datum((char *)to + (size_t)i * c->bytes, t_byte(who, sequence, (size_t)i), t_byte(who, sequence + 1, (size_t)i));
}

/* n elements have to be what all of so many ranks give, in this order; what lies in gaps is left as it was. */
static void see(const Case *c, const char *got, int ranks, int n, unsigned char gap)
{
    for (int i = 0; i < n; i++) {
        uint64_t in[2] = {0}, inout[2] = {0};
        const char *mine = got + (size_t)i * c->bytes;
        for (int who = ranks; who-- > 0;) {
            uint64_t *to = who == ranks - 1 ? inout : in;
            c->datum(to, t_byte((unsigned)who, sequence, (size_t)i), t_byte((unsigned)who, sequence + 1, (size_t)i));
            if (who < ranks - 1)
                c->fold(in, inout);
        }
        if (memcmp(mine, inout, c->used) != 0)
            t_fail(__FILE__, __LINE__, "%s of %d ranks: element %d of %d is wrong", c->name, ranks, i, n);
        for (size_t at = c->used; at < c->bytes; at++)
            SAME((unsigned char)mine[at], gap);
    }
}

enum { ALLREDUCE, IN_PLACE, REDUCE, KINDS };

static void call(const Case *c, int kind, void *in, void *out, int n, int root, MPI_Comm comm, int keep, MPI_Request *r)
{
    if (kind == IN_PLACE)
        in = MPI_IN_PLACE;
    if (kind == REDUCE && keep)
        OK(MPI_Reduce_init(in, out, n, c->type, c->op, root, comm, MPI_INFO_NULL, r));
    else if (kind == REDUCE)
        OK(MPI_Ireduce(in, out, n, c->type, c->op, root, comm, r));
    else if (keep)
        OK(MPI_Allreduce_init(in, out, n, c->type, c->op, comm, MPI_INFO_NULL, r));
    else
        OK(MPI_Iallreduce(in, out, n, c->type, c->op, comm, r));
}

/* One reduction of n elements, several times if it is kept; `there`: it has to run in the receive path, or must not. */
static void one(const Case *c, int kind, int n, MPI_Comm comm, int keep, int there)
{
    static uint64_t in[4096], out[4096];
    int rank, ranks, root;
    MPI_Request r;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &ranks));
    root = (int)(sequence % (unsigned)ranks);
    CHECK((size_t)n * c->bytes <= sizeof in);
    if (keep)
        call(c, kind, in, out, n, root, comm, 1, &r);
    for (int start = 0; start < (keep ? 3 : 1); start++) {
        unsigned long long before = ran();
        sequence++;
        fill(c, in, (unsigned)rank, n);
        memset(out, 0x77, sizeof out);
        if (kind == IN_PLACE)
            memcpy(out, in, sizeof out);
        if (keep)
            OK(MPI_Start(&r));
        else
            call(c, kind, in, out, n, root, comm, 0, &r);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        if (kind != REDUCE || rank == root)
            see(c, (char *)out, ranks, n, kind == IN_PLACE ? 0x5A : 0x77);
        else
            SAME(((unsigned char *)out)[0], 0x77);
        if (here)
            SAME(ran() - before, there);
    }
    if (keep)
        OK(MPI_Request_free(&r));
}

/* All operations on a communicator, each time another one. */
static void all(MPI_Comm comm)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < made; i++) {
            const Case *c = &cases[i];
            one(c, kind, 1, comm, 0, c->kernel);
            one(c, kind, c->most, comm, 0, c->kernel);
            one(c, kind, c->most + 1, comm, 0, 0);
            one(c, kind, 5, comm, kind == i % KINDS, c->kernel);
        }
}

/* Two again and again, so that they keep their places; and one that is made anew each time. */
static void again(void)
{
    for (int round = 0; round < 50; round++) {
        one(&cases[round % 2 ? 8 : 6], ALLREDUCE, 3 + round, MPI_COMM_WORLD, 0, 1);
        Case fresh = cases[8];
        OK(yamabiko_op_create_bytecode(horner_code, sizeof horner_code, 0, &fresh.op));
        one(&fresh, ALLREDUCE, 2, MPI_COMM_WORLD, 0, 1);
        OK(MPI_Op_free(&fresh.op));
    }
}

/* Several under way at once, with operations that are freed meanwhile. */
static void outstanding(void)
{
    enum { N = 12 };
    static Horner in[N][8], out[N][8];
    MPI_Request r[N];
    Case c = cases[8];
    for (int i = 0; i < N; i++) {
        /* i terms more of the polynomial are a code of its own */
        uint64_t code[10 + N];
        memcpy(code, horner_code, sizeof horner_code);
        for (int k = 0; k < i % 7; k++)
            code[10 + k] = BC(STORE, U32, 4, 4);
        OK(yamabiko_op_create_bytecode(code, (size_t)(10 + i % 7) * 8, 0, &c.op));
        fill(&c, in[i], (unsigned)t_rank, 8);
        OK(MPI_Iallreduce(in[i], out[i], 8, c.type, c.op, MPI_COMM_WORLD, &r[i]));
        OK(MPI_Op_free(&c.op));
    }
    OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        see(&c, (char *)out[i], t_size, 8, 0);
}

/* kaccd is killed when all but one have begun, some of them with operations that it has not seen; then everything goes on. */
static void killed(void)
{
    enum { N = 6 };
    static Horner in[N][4], out[N][4];
    MPI_Request r[N];
    int word = 0, owns = kaccd > 0, all_own[64], owner = 0;
    OK(MPI_Allgather(&owns, 1, MPI_INT, all_own, 1, MPI_INT, MPI_COMM_WORLD));
    while (!all_own[owner])
        owner++;
    for (int i = 0; i < 20; i++)
        one(&cases[i % 9], ALLREDUCE, 4, MPI_COMM_WORLD, 0, 1);
    if (t_rank == owner) {
        for (int i = 0; i < t_size; i++)
            if (i != owner)
                OK(MPI_Recv(&word, 1, MPI_INT, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        kaccd_stop();
    }
    here = 0;
    sequence++;
    for (int i = 0; i < N; i++) {
        const Case *c = &cases[i % 2 ? 8 : 4];
        fill(c, in[i], (unsigned)t_rank, 4);
        OK(MPI_Iallreduce(in[i], out[i], 4, c->type, c->op, MPI_COMM_WORLD, &r[i]));
    }
    if (t_rank != owner)
        OK(MPI_Send(&word, 1, MPI_INT, owner, 7, MPI_COMM_WORLD));
    OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        see(&cases[i % 2 ? 8 : 4], (char *)out[i], t_size, 4, 0);
    all(MPI_COMM_WORLD);
}

/* kaccd does not answer any more, but its program is there: what that has goes on, and what it has not all ranks do in calls. */
static void stopped(void)
{
    static Horner in[3], out[3];
    MPI_Request kept;
    one(&cases[6], ALLREDUCE, 5, MPI_COMM_WORLD, 0, 1);
    OK(MPI_Allreduce_init(in, out, 3, cases[8].type, cases[8].op, MPI_COMM_WORLD, MPI_INFO_NULL, &kept));
    for (int start = 0; start < 3; start++) {
        fill(&cases[8], in, (unsigned)t_rank, 3);
        OK(MPI_Start(&kept));
        OK(MPI_Wait(&kept, MPI_STATUS_IGNORE));
        see(&cases[8], (char *)out, t_size, 3, 0);
        if (start == 0) {
            OK(MPI_Barrier(MPI_COMM_WORLD));
            if (kaccd > 0)
                CHECK(kill(kaccd, SIGSTOP) == 0);
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    }
    one(&cases[8], ALLREDUCE, 5, MPI_COMM_WORLD, 0, 0);
    one(&cases[6], ALLREDUCE, 5, MPI_COMM_WORLD, 0, 1);
    one(&cases[0], REDUCE, 5, MPI_COMM_WORLD, 0, 0);
    one(&cases[8], IN_PLACE, 5, MPI_COMM_WORLD, 0, 0);
    one(&cases[6], IN_PLACE, 5, MPI_COMM_WORLD, 0, 1);
    OK(MPI_Request_free(&kept));
}

/* The last communicators have no context: there it runs in calls. */
static void many(void)
{
    enum { N = 70 };
    static MPI_Comm comms[N];
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    one(&cases[8], ALLREDUCE, 3, comms[0], 0, 1);
    one(&cases[8], ALLREDUCE, 3, comms[N - 1], 0, 0);
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_free(&comms[i]));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    here = kaccd_start();
    t_init(&argc, &argv);
    here = here && t_size > 1;
    make_cases();
    if (here && strcmp(how, "killed") == 0) {
        killed();
    } else if (strcmp(how, "stopped") == 0) {
        stopped();
    } else if (strcmp(how, "many") == 0) {
        many();
    } else {
        MPI_Comm reversed;
        all(MPI_COMM_WORLD);
        again();
        outstanding();
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &reversed));
        one(&cases[8], ALLREDUCE, 3, reversed, 0, 1);
        one(&cases[0], REDUCE, 3, reversed, 1, 1);
        OK(MPI_Comm_free(&reversed));
    }
    for (int i = 0; i < made; i++)
        OK(MPI_Op_free(&cases[i].op));
    OK(MPI_Type_free(&cases[8].type));
    OK(MPI_Type_free(&cases[9].type));
    OK(MPI_Type_free(&cases[12].type));
    int end = t_done("op_bytecode_softirq");
    kaccd_stop();
    return end;
}
#else
/* With other libraries there is nothing to be tested. */
int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    return t_done("op_bytecode_softirq");
}
#endif
