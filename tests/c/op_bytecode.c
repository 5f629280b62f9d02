/* Reductions with operations of byte code (yamabiko.h): products of complex numbers of integers, a greatest value with its place, folds of
 * a polynomial (which don't commute), and a structure of small fields; in all reductions, blocking, non-blocking and persistent. What
 * comes out is compared with functions of C that do the same.
 *
 * Argument "fatal": a wrong program under MPI_ERRORS_ARE_FATAL; the job has to end with a sentence that says what is wrong where.
 * Argument "stack": handlers of signals have an alternative stack that is hardly larger than the system's least one.
 */
#include "check.h"
#ifdef YAMABIKO
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <yamabiko.h>

typedef struct {
    int64_t re, im;
} Complex;

typedef struct {
    double value;
    int32_t at; /* four bytes follow that are nobody's */
} Best;

typedef struct {
    uint32_t sum, power;
} Horner;

typedef struct {
    float most;
    int8_t least;
    uint8_t any;
    int16_t bits;
} Small;

/* Shorter names for this file. */
#define I8 YAMABIKO_BC_I8
#define I16 YAMABIKO_BC_I16
#define I32 YAMABIKO_BC_I32
#define I64 YAMABIKO_BC_I64
#define U8 YAMABIKO_BC_U8
#define U32 YAMABIKO_BC_U32
#define U64 YAMABIKO_BC_U64
#define F32 YAMABIKO_BC_F32
#define F64 YAMABIKO_BC_F64
#define BC(name, ...) YAMABIKO_BC_##name(__VA_ARGS__)

static const uint64_t complex_code[] = {
    BC(BEGIN, sizeof(Complex)),
    BC(LOAD_IN, I64, 0, 0), BC(LOAD_IN, I64, 1, 8), BC(LOAD_INOUT, I64, 2, 0), BC(LOAD_INOUT, I64, 3, 8),
    BC(MUL, I64, 4, 0, 2), BC(MUL, I64, 5, 1, 3), BC(SUB, I64, 4, 4, 5), BC(STORE, I64, 4, 0),
    BC(MUL, I64, 4, 0, 3), BC(MUL, I64, 5, 1, 2), BC(ADD, I64, 4, 4, 5), BC(STORE, I64, 4, 8),
};

/* Constants of floating-point numbers are made by functions, so these two are filled in main. */
static uint64_t best_code[32], small_code[64];
static size_t best_bytes, small_bytes;

/* in = (a, x^i), inout = (b, x^j) -> (a x^j + b, x^(i+j)) */
static const uint64_t horner_code[] = {
    BC(BEGIN, sizeof(Horner)),
    BC(LOAD_IN, U32, 0, 0), BC(LOAD_IN, U32, 1, 4), BC(LOAD_INOUT, U32, 2, 0), BC(LOAD_INOUT, U32, 3, 4),
    BC(MUL, U64, 4, 0, 3), BC(ADD, U64, 4, 4, 2), BC(STORE, U32, 4, 0),
    BC(MUL, U64, 4, 1, 3), BC(STORE, U32, 4, 4),
};

static void write_codes(void)
{
    const uint64_t best[] = {
        BC(BEGIN, sizeof(Best)),
        BC(LOAD_IN, F64, 0, 0), BC(LOAD_IN, I32, 1, 8), BC(LOAD_INOUT, F64, 2, 0), BC(LOAD_INOUT, I32, 3, 8),
        BC(LT, F64, 4, 2, 0), BC(EQ, F64, 5, 2, 0), BC(LT, I64, 6, 1, 3), BC(AND, I64, 5, 5, 6), BC(OR, I64, 4, 4, 5),
        BC(CONST_F64, 7, 250.0), BC(MIN, F64, 8, 0, 7), BC(MIN, F64, 9, 2, 7), /* no value is greater than 250 */
        BC(SELECT, F64, 10, 4, 8, 9), BC(STORE, F64, 10, 0), BC(SELECT, I64, 11, 4, 1, 3), BC(STORE, I32, 11, 8),
    };
    const uint64_t small[] = {
        BC(BEGIN, sizeof(Small)),
        BC(LOAD_IN, F32, 0, 0), BC(LOAD_INOUT, F32, 1, 0), BC(CONST_F32, 2, 0.5f), BC(MUL, F32, 0, 0, 2), BC(MUL, F32, 1, 1, 2),
        BC(MAX, F32, 0, 0, 1), BC(ADD, F32, 0, 0, 0), BC(STORE, F32, 0, 0), /* the greater half, twice */
        BC(LOAD_IN, I8, 0, 4), BC(LOAD_INOUT, I8, 1, 4), BC(CONVERT, F64, 2, I64, 0), BC(CONVERT, F64, 3, I64, 1),
        BC(LT, F64, 4, 2, 3), BC(SELECT, I64, 5, 4, 0, 1), BC(STORE, I8, 5, 4),
        BC(LOAD_IN, U8, 0, 5), BC(LOAD_INOUT, U8, 1, 5), BC(NOT, U64, 0, 0), BC(NOT, U64, 1, 1), BC(AND, U64, 2, 0, 1),
        BC(NOT, U64, 2, 2), BC(STORE, U8, 2, 5), /* or, as de Morgan has it */
        BC(LOAD_IN, I16, 0, 6), BC(LOAD_INOUT, I16, 1, 6), BC(XOR, I64, 0, 0, 1), BC(STORE, I16, 0, 6),
    };
    memcpy(best_code, best, best_bytes = sizeof best);
    memcpy(small_code, small, small_bytes = sizeof small);
}

/* The same in C: b = a op b. */
static void complex_fold(const void *a_, void *b_)
{
    const Complex *a = a_;
    Complex *b = b_, x = *b;
    b->re = (int64_t)((uint64_t)a->re * (uint64_t)x.re - (uint64_t)a->im * (uint64_t)x.im);
    b->im = (int64_t)((uint64_t)a->re * (uint64_t)x.im + (uint64_t)a->im * (uint64_t)x.re);
}

static void best_fold(const void *a_, void *b_)
{
    const Best *a = a_;
    Best *b = b_;
    if (a->value > b->value || (a->value == b->value && a->at < b->at))
        b->value = a->value, b->at = a->at;
    b->value = b->value < 250 ? b->value : 250;
}

static void horner_fold(const void *a_, void *b_)
{
    const Horner *a = a_;
    Horner *b = b_;
    b->sum = a->sum * b->power + b->sum;
    b->power *= a->power;
}

static void small_fold(const void *a_, void *b_)
{
    const Small *a = a_;
    Small *b = b_;
    b->most = a->most > b->most ? a->most : b->most;
    b->least = a->least < b->least ? a->least : b->least;
    b->any |= a->any;
    b->bits ^= a->bits;
}

/* Element `i` of what a rank puts in. */
static void complex_datum(void *to, unsigned who, unsigned round, size_t i)
{
    *(Complex *)to = (Complex){(int8_t)t_byte(who, round, i) * (1LL << 40) + 3, (int8_t)t_byte(who, round + 1, i) * 77777LL};
}

static void best_datum(void *to, unsigned who, unsigned round, size_t i)
{
    Best *best = to;
    best->value = t_byte(who, round, i) / 2; /* some are equal */
    best->at = (int32_t)(t_byte(who, round + 1, i) * 3 - 300);
}

static void horner_datum(void *to, unsigned who, unsigned round, size_t i)
{
    *(Horner *)to = (Horner){t_byte(who, round, i) * 16777259u, t_byte(who, round + 1, i) * 2654435761u | 1};
}

static void small_datum(void *to, unsigned who, unsigned round, size_t i)
{
    unsigned char x = t_byte(who, round, i);
    *(Small *)to = (Small){(float)x - 99.5f, (int8_t)t_byte(who, round + 1, i), x & 0x55, (int16_t)(x * 257 - 9)};
}

static int complex_same(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(Complex)) == 0;
}

static int best_same(const void *a_, const void *b_)
{
    const Best *a = a_, *b = b_;
    return a->value == b->value && a->at == b->at;
}

static int horner_same(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(Horner)) == 0;
}

static int small_same(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(Small)) == 0;
}

typedef struct {
    const char *name;
    size_t bytes;
    void (*fold)(const void *, void *);
    void (*datum)(void *, unsigned, unsigned, size_t);
    int (*same)(const void *, const void *);
    int commutes;
    MPI_Datatype type;
    MPI_Op op;
} Case;

enum { CASES = 4 };
static Case cases[CASES] = {
    {"complex", sizeof(Complex), complex_fold, complex_datum, complex_same, 1, MPI_DATATYPE_NULL, MPI_OP_NULL},
    {"best", sizeof(Best), best_fold, best_datum, best_same, 1, MPI_DATATYPE_NULL, MPI_OP_NULL},
    {"horner", sizeof(Horner), horner_fold, horner_datum, horner_same, 0, MPI_DATATYPE_NULL, MPI_OP_NULL},
    {"small", sizeof(Small), small_fold, small_datum, small_same, 1, MPI_DATATYPE_NULL, MPI_OP_NULL},
};

static unsigned sequence;

static void make_cases(void)
{
    OK(MPI_Type_contiguous(2, MPI_INT64_T, &cases[0].type));
    MPI_Datatype plain;
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_INT32_T}, &plain));
    OK(MPI_Type_create_resized(plain, 0, sizeof(Best), &cases[1].type));
    OK(MPI_Type_free(&plain));
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &cases[2].type));
    OK(MPI_Type_create_struct(4, (int[]){1, 1, 1, 1}, (MPI_Aint[]){0, 4, 5, 6},
                              (MPI_Datatype[]){MPI_FLOAT, MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T}, &cases[3].type));
    for (int i = 0; i < CASES; i++)
        OK(MPI_Type_commit(&cases[i].type));
    OK(yamabiko_op_create_bytecode(complex_code, sizeof complex_code, 1, &cases[0].op));
    OK(yamabiko_op_create_bytecode(best_code, best_bytes, 1, &cases[1].op));
    OK(yamabiko_op_create_bytecode(horner_code, sizeof horner_code, 0, &cases[2].op));
    OK(yamabiko_op_create_bytecode(small_code, small_bytes, 1, &cases[3].op));
    for (int i = 0; i < CASES; i++) {
        int commutes = -1;
        OK(MPI_Op_commutative(cases[i].op, &commutes));
        SAME(commutes, cases[i].commutes);
    }
}

/* What `who` puts in, from element `first` on. */
static void fill(const Case *c, void *to, unsigned who, size_t first, size_t n)
{
    memset(to, 0x5A, n * c->bytes);
    for (size_t i = 0; i < n; i++)
        c->datum((char *)to + i * c->bytes, who, sequence, first + i);
}

/* n elements from `first` on have to be what the ranks from 0 to `last` give. */
static void see(const Case *c, const void *got, int last, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t in[2] = {0}, inout[2] = {0};
        c->datum(inout, (unsigned)last, sequence, first + i);
        for (int who = last; who-- > 0;) {
            c->datum(in, (unsigned)who, sequence, first + i);
            c->fold(in, inout);
        }
        if (!c->same((const char *)got + i * c->bytes, inout))
            t_fail(__FILE__, __LINE__, "%s of ranks 0 to %d: element %zu of %zu is wrong", c->name, last, i, n);
    }
}

enum { BLOCKING, NONBLOCKING, PERSISTENT, WAYS };
enum { ALLREDUCE, IN_PLACE, REDUCE, SCAN, EXSCAN, SCATTER, SCATTER_BLOCK, KINDS };

/* One call of a kind in a way; non-blocking ones are begun, persistent ones made. */
static void call(int kind, int way, const Case *c, void *in, void *out, int n, const int *counts, int root, MPI_Request *r)
{
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Info no = MPI_INFO_NULL;
    MPI_Datatype t = c->type;
    MPI_Op op = c->op;
    switch (kind * WAYS + way) {
    case IN_PLACE * WAYS + BLOCKING: in = MPI_IN_PLACE; /* fall through */
    case ALLREDUCE * WAYS + BLOCKING: OK(MPI_Allreduce(in, out, n, t, op, w)); break;
    case IN_PLACE * WAYS + NONBLOCKING: in = MPI_IN_PLACE; /* fall through */
    case ALLREDUCE * WAYS + NONBLOCKING: OK(MPI_Iallreduce(in, out, n, t, op, w, r)); break;
    case IN_PLACE * WAYS + PERSISTENT: in = MPI_IN_PLACE; /* fall through */
    case ALLREDUCE * WAYS + PERSISTENT: OK(MPI_Allreduce_init(in, out, n, t, op, w, no, r)); break;
    case REDUCE * WAYS + BLOCKING: OK(MPI_Reduce(in, out, n, t, op, root, w)); break;
    case REDUCE * WAYS + NONBLOCKING: OK(MPI_Ireduce(in, out, n, t, op, root, w, r)); break;
    case REDUCE * WAYS + PERSISTENT: OK(MPI_Reduce_init(in, out, n, t, op, root, w, no, r)); break;
    case SCAN * WAYS + BLOCKING: OK(MPI_Scan(in, out, n, t, op, w)); break;
    case SCAN * WAYS + NONBLOCKING: OK(MPI_Iscan(in, out, n, t, op, w, r)); break;
    case SCAN * WAYS + PERSISTENT: OK(MPI_Scan_init(in, out, n, t, op, w, no, r)); break;
    case EXSCAN * WAYS + BLOCKING: OK(MPI_Exscan(in, out, n, t, op, w)); break;
    case EXSCAN * WAYS + NONBLOCKING: OK(MPI_Iexscan(in, out, n, t, op, w, r)); break;
    case EXSCAN * WAYS + PERSISTENT: OK(MPI_Exscan_init(in, out, n, t, op, w, no, r)); break;
    case SCATTER * WAYS + BLOCKING: OK(MPI_Reduce_scatter(in, out, counts, t, op, w)); break;
    case SCATTER * WAYS + NONBLOCKING: OK(MPI_Ireduce_scatter(in, out, counts, t, op, w, r)); break;
    case SCATTER * WAYS + PERSISTENT: OK(MPI_Reduce_scatter_init(in, out, counts, t, op, w, no, r)); break;
    case SCATTER_BLOCK * WAYS + BLOCKING: OK(MPI_Reduce_scatter_block(in, out, n, t, op, w)); break;
    case SCATTER_BLOCK * WAYS + NONBLOCKING: OK(MPI_Ireduce_scatter_block(in, out, n, t, op, w, r)); break;
    default: OK(MPI_Reduce_scatter_block_init(in, out, n, t, op, w, no, r));
    }
}

/* A reduction of n elements (of which each rank gets so many, where results are scattered). */
static void one(const Case *c, int kind, int way, int n)
{
    int blocks = kind == SCATTER || kind == SCATTER_BLOCK, root = (int)(sequence % (unsigned)t_size);
    size_t total = blocks ? 0 : (size_t)n, first = 0, mine = (size_t)n;
    int *counts = t_alloc((size_t)t_size * sizeof *counts);
    for (int p = 0; p < t_size && blocks; p++) {
        counts[p] = kind == SCATTER ? (p % 3 == 1 ? 0 : n + p) : n;
        first += p < t_rank ? (size_t)counts[p] : 0;
        mine = p == t_rank ? (size_t)counts[p] : mine;
        total += (size_t)counts[p];
    }
    void *in = t_alloc(total * c->bytes), *out = t_alloc(total * c->bytes);
    MPI_Request r = MPI_REQUEST_NULL;
    if (way == PERSISTENT)
        call(kind, way, c, in, out, n, counts, root, &r);
    for (int start = 0; start < (way == PERSISTENT ? 3 : 1); start++) {
        sequence++;
        fill(c, in, (unsigned)t_rank, 0, total);
        fill(c, out, kind == IN_PLACE ? (unsigned)t_rank : 99, 0, total);
        if (way == PERSISTENT)
            OK(MPI_Start(&r));
        else
            call(kind, way, c, in, out, n, counts, root = (int)(sequence % (unsigned)t_size), &r);
        if (way != BLOCKING)
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        int last = kind == SCAN ? t_rank : kind == EXSCAN ? t_rank - 1 : t_size - 1;
        if (last >= 0 && (kind != REDUCE || t_rank == root))
            see(c, out, last, first, mine);
    }
    if (way == PERSISTENT)
        OK(MPI_Request_free(&r));
    free(in), free(out), free(counts);
}

static void local(const Case *c)
{
    enum { MOST = 45 };
    uint64_t in[2 * MOST + 2], inout[2 * MOST + 2], want[2 * MOST + 2];
    for (int n = 0; n <= MOST; n++) {
        char *a = (char *)in + 1, *b = (char *)inout + 3; /* not aligned */
        sequence++;
        memset(inout, 0x77, sizeof inout);
        fill(c, in, 1, 0, (size_t)n);
        fill(c, want, 2, 0, (size_t)n);
        memmove(a, in, (size_t)n * c->bytes), memcpy(b, want, (size_t)n * c->bytes);
        OK(MPI_Reduce_local(a, b, n, c->type, c->op));
        for (size_t i = 0; i < (size_t)n; i++) {
            uint64_t x[2], got[2];
            memcpy(x, a + i * c->bytes, c->bytes), memcpy(got, b + i * c->bytes, c->bytes);
            c->fold(x, (char *)want + i * c->bytes);
            CHECK(c->same(got, (char *)want + i * c->bytes));
        }
        CHECK(((unsigned char *)b)[-1] == 0x77 && ((unsigned char *)b)[(size_t)n * c->bytes] == 0x77);
    }
}

/* Long elements, of which only the first and the last number are added up; the others stay those of the last operand. */
static void wide(void)
{
    enum { LONG = 512, COUNT = 3 };
    static const uint64_t code[] = {
        BC(BEGIN, LONG * 8),
        BC(LOAD_IN, I64, 0, 0), BC(LOAD_INOUT, I64, 1, 0), BC(ADD, I64, 0, 0, 1), BC(STORE, I64, 0, 0),
        BC(LOAD_IN, I64, 0, LONG * 8 - 8), BC(LOAD_INOUT, I64, 1, LONG * 8 - 8), BC(ADD, I64, 0, 0, 1), BC(STORE, I64, 0, LONG * 8 - 8),
    };
    MPI_Datatype type;
    MPI_Op op;
    OK(MPI_Type_contiguous(LONG, MPI_INT64_T, &type));
    OK(MPI_Type_commit(&type));
    OK(yamabiko_op_create_bytecode(code, sizeof code, 0, &op));
    int64_t(*in)[LONG] = t_alloc(COUNT * sizeof *in), (*out)[LONG] = t_alloc(COUNT * sizeof *out);
    for (int way = BLOCKING; way <= NONBLOCKING; way++) {
        MPI_Request r = MPI_REQUEST_NULL;
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < LONG; j++)
                in[i][j] = t_rank * 1000 + i * 100 + j, out[i][j] = -1;
        if (way == BLOCKING)
            OK(MPI_Allreduce(in, out, COUNT, type, op, MPI_COMM_WORLD));
        else
            OK(MPI_Iallreduce(in, out, COUNT, type, op, MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < LONG; j++) {
                int64_t all = t_size * (t_size - 1) / 2 * 1000 + t_size * (i * 100 + j);
                SAME(out[i][j], j == 0 || j == LONG - 1 ? all : (t_size - 1) * 1000 + i * 100 + j);
            }
    }
    free(in), free(out);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&type));
}

/* The operation goes away while a reduction has it. */
static void freed(void)
{
    Case c = cases[2];
    Horner in[3], out[3];
    MPI_Request r;
    sequence++;
    fill(&c, in, (unsigned)t_rank, 0, 3);
    OK(yamabiko_op_create_bytecode(horner_code, sizeof horner_code, 0, &c.op));
    OK(MPI_Iallreduce(in, out, 3, c.type, c.op, MPI_COMM_WORLD, &r));
    OK(MPI_Op_free(&c.op));
    CHECK(c.op == MPI_OP_NULL);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    see(&c, out, t_size - 1, 0, 3);
}

/* The least stack and 4 KiB; below it, memory that nobody may touch. */
static void small_stack(void)
{
    size_t page = 4096, least = getauxval(51 /* AT_MINSIGSTKSZ */), size = (least > 2048 ? least : 2048) + page;
    char *memory = mmap(NULL, 2 * page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, page + size, PROT_READ | PROT_WRITE) == 0);
    stack_t stack = {.ss_sp = memory + page, .ss_size = size};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void refused(void)
{
    MPI_Op op = MPI_OP_NULL;
    uint64_t long_code[2] = {BC(BEGIN, 8), 0}, in[4] = {0}, out[4] = {0};
    const uint64_t outside[] = {BC(BEGIN, 8), BC(LOAD_IN, I64, 0, 1)}, empty[] = {BC(BEGIN, 8), BC(ADD, I64, 0, 1, 2)};
    const uint64_t tail[] = {BC(BEGIN, 16), BC(LOAD_IN, I32, 0, 12), BC(STORE, I32, 0, 12)};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(yamabiko_op_create_bytecode(NULL, 8, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(horner_code, sizeof horner_code, 1, NULL), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(horner_code, 0, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(horner_code, sizeof horner_code - 1, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(horner_code, (size_t)-8, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(horner_code + 1, sizeof horner_code - 8, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(long_code, sizeof long_code, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(outside, sizeof outside, 1, &op), MPI_ERR_ARG);
    FAILS(yamabiko_op_create_bytecode(empty, sizeof empty, 1, &op), MPI_ERR_ARG);
    CHECK(op == MPI_OP_NULL);
    /* on another element than its own */
    FAILS(MPI_Reduce_local(in, out, 1, MPI_INT, cases[2].op), MPI_ERR_OP);
    FAILS(MPI_Allreduce(in, out, 1, MPI_DOUBLE_INT, cases[2].op, MPI_COMM_WORLD), MPI_ERR_OP);
    MPI_Request r;
    FAILS(MPI_Iallreduce(in, out, 1, MPI_FLOAT, cases[2].op, MPI_COMM_WORLD, &r), MPI_ERR_OP);
    FAILS(MPI_Reduce_init(in, out, 1, MPI_FLOAT, cases[2].op, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r), MPI_ERR_OP);
    /* of that size, but not all that the program touches is the datatype's */
    OK(yamabiko_op_create_bytecode(tail, sizeof tail, 1, &op));
    FAILS(MPI_Reduce_local(in, out, 1, cases[1].type, op), MPI_ERR_OP);
    OK(MPI_Reduce_local(in, out, 1, cases[0].type, op));
    OK(MPI_Op_free(&op));
    /* of that size, and of the library's own */
    uint64_t a = 5ull << 32 | 7, b = 1ull << 32 | 2;
    OK(MPI_Reduce_local(&a, &b, 1, MPI_UINT64_T, cases[2].op));
    CHECK((uint32_t)b == 7 * 1 + 2);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "fatal") == 0) {
        MPI_Op op;
        const uint64_t wrong[] = {BC(BEGIN, 8), BC(LOAD_IN, I64, 3, 0), BC(ADD, I64, 3, 3, 4)};
        yamabiko_op_create_bytecode(wrong, sizeof wrong, 1, &op);
        return t_done("op_bytecode");
    }
    if (argc > 1 && strcmp(argv[1], "stack") == 0)
        small_stack();
    write_codes();
    make_cases();
    static const int counts[] = {0, 1, 5, 33, 700};
    for (int i = 0; i < CASES; i++) {
        local(&cases[i]);
        for (int kind = 0; kind < KINDS; kind++)
            for (int way = 0; way < WAYS; way++)
                for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
                    one(&cases[i], kind, way, counts[n]);
        one(&cases[i], ALLREDUCE, BLOCKING, 20000);
        one(&cases[i], ALLREDUCE, NONBLOCKING, 20000);
        one(&cases[i], REDUCE, PERSISTENT, 20000);
    }
    wide();
    freed();
    refused();
    for (int i = 0; i < CASES; i++) {
        OK(MPI_Op_free(&cases[i].op));
        OK(MPI_Type_free(&cases[i].type));
    }
    return t_done("op_bytecode");
}
#else
/* With other libraries there is nothing to be tested. */
int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    return t_done("op_bytecode");
}
#endif
