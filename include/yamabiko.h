/* What Yamabiko has beside MPI: reductions as byte code.
 *
 * An operation made of a function of the program's, as MPI_Op_create makes it, is done when the program is in MPI, unless it vouches
 * that the function may run anywhere. One made of byte code is data that Yamabiko checks and runs itself, so it can be
 * done wherever MPI's own operations are: with YAMABIKO_CAD=ring also while the program computes, and with YAMABIKO_CAD=softirq in the
 * kernel's receive path, if it has no quotients or roots of floating-point numbers and converts nothing to or from them.
 *
 *     static const uint64_t code[] = {             // struct { double value; int32_t index; }: the greatest value, the first index of it
 *         YAMABIKO_BC_BEGIN(16),
 *         YAMABIKO_BC_LOAD_IN(YAMABIKO_BC_F64, 0, 0),       YAMABIKO_BC_LOAD_IN(YAMABIKO_BC_I32, 1, 8),
 *         YAMABIKO_BC_LOAD_INOUT(YAMABIKO_BC_F64, 2, 0),    YAMABIKO_BC_LOAD_INOUT(YAMABIKO_BC_I32, 3, 8),
 *         YAMABIKO_BC_LT(YAMABIKO_BC_F64, 4, 2, 0),         // r4 = inout.value < in.value
 *         YAMABIKO_BC_EQ(YAMABIKO_BC_F64, 5, 2, 0),
 *         YAMABIKO_BC_LT(YAMABIKO_BC_I64, 6, 1, 3),
 *         YAMABIKO_BC_AND(YAMABIKO_BC_I64, 5, 5, 6),
 *         YAMABIKO_BC_OR(YAMABIKO_BC_I64, 4, 4, 5),         // or as great, and its index is lower
 *         YAMABIKO_BC_SELECT(YAMABIKO_BC_F64, 0, 4, 0, 2),  YAMABIKO_BC_STORE(YAMABIKO_BC_F64, 0, 0),
 *         YAMABIKO_BC_SELECT(YAMABIKO_BC_I64, 1, 4, 1, 3),  YAMABIKO_BC_STORE(YAMABIKO_BC_I32, 1, 8),
 *     };
 *     MPI_Op op;
 *     yamabiko_op_create_bytecode(code, sizeof code, 1, &op);
 *
 * A program says how one element of `inout = in op inout` is computed, from its first word to its last: there are no jumps.
 * There are 16 registers. What one holds is an integer of 64 bits, a float or a double, and the program has to use it as
 * that. A load extends an integer by its sign or with zeros, a store takes its low bytes; integers wrap. An instruction's
 * type says how it looks at its operands: I64, U64 (both at integers), F32 or F64.
 *
 * In the macros `dst` is the register that is set, `a`, `b` and `c` are registers that are read, and `offset` counts bytes from the
 * beginning of the element. Each makes one word (uint64_t), those of constants two.
 *
 *     LOAD_IN, LOAD_INOUT(type, dst, offset)    dst = a field of in, of inout; any type
 *     STORE(type, a, offset)                    a field of inout = a; any type; later loads of inout see it
 *     CONST_I64(dst, v) CONST_F32 CONST_F64     dst = v (those of floating-point numbers only inside functions)
 *     ADD SUB MUL DIV MIN MAX(type, dst, a, b)  min is a < b ? a : b, max is a > b ? a : b; an integer divided by 0 is 0
 *     REM AND OR XOR SHL SHR(type, dst, a, b)   I64 and U64 only; a rem 0 is a; shifts count modulo 64; SHR of I64 keeps the sign
 *     EQ NE LT LE(type, dst, a, b)              dst = the integer 1 or 0
 *     NEG, ABS (not U64), SQRT (F32 and F64), NOT (I64 and U64)(type, dst, a)
 *     SELECT(type, dst, a, b, c)                dst = a ? b : c, where a is an integer
 *     CONVERT(to, dst, from, a)                 dst = a, of the type from (I64, U64, F32, F64), as any type; what is too great for an
 *                                               integer type wraps if it was an integer and saturates if not; NaN becomes 0
 */
#ifndef YAMABIKO_H
#define YAMABIKO_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an operation of `bytes` bytes of code, which are copied. `commute` is as in MPI_Op_create, and so are the operation's use
 * and its end (MPI_Op_free).
 *
 * Errors: MPI_ERR_ARG for code that is not a program; the message says which word is wrong, and how. A reduction fails with
 * MPI_ERR_OP for a datatype whose extent is not the program's size of an element, or whose data don't reach from the first to the last
 * byte that the program touches.
 */
int yamabiko_op_create_bytecode(const void *code, size_t bytes, int commute, MPI_Op *op);

/* The numbers of the encoding, version 1: words of 64 bits as the machine has them. */
#define YAMABIKO_BC_MAGIC 0x43424d59u
#define YAMABIKO_BC_VERSION 1
#define YAMABIKO_BC_REGISTERS 16
#define YAMABIKO_BC_INSTRUCTIONS_MAX 256
#define YAMABIKO_BC_ELEMENT_MAX 65536

/* Types. */
#define YAMABIKO_BC_I8 1
#define YAMABIKO_BC_I16 2
#define YAMABIKO_BC_I32 3
#define YAMABIKO_BC_I64 4
#define YAMABIKO_BC_U8 5
#define YAMABIKO_BC_U16 6
#define YAMABIKO_BC_U32 7
#define YAMABIKO_BC_U64 8
#define YAMABIKO_BC_F32 9
#define YAMABIKO_BC_F64 10

/* Opcodes. */
#define YAMABIKO_BC_OP_LOAD_IN 0x01
#define YAMABIKO_BC_OP_LOAD_INOUT 0x02
#define YAMABIKO_BC_OP_STORE 0x03
#define YAMABIKO_BC_OP_CONST 0x04
#define YAMABIKO_BC_OP_ADD 0x10
#define YAMABIKO_BC_OP_SUB 0x11
#define YAMABIKO_BC_OP_MUL 0x12
#define YAMABIKO_BC_OP_DIV 0x13
#define YAMABIKO_BC_OP_REM 0x14
#define YAMABIKO_BC_OP_MIN 0x15
#define YAMABIKO_BC_OP_MAX 0x16
#define YAMABIKO_BC_OP_AND 0x17
#define YAMABIKO_BC_OP_OR 0x18
#define YAMABIKO_BC_OP_XOR 0x19
#define YAMABIKO_BC_OP_SHL 0x1a
#define YAMABIKO_BC_OP_SHR 0x1b
#define YAMABIKO_BC_OP_EQ 0x20
#define YAMABIKO_BC_OP_NE 0x21
#define YAMABIKO_BC_OP_LT 0x22
#define YAMABIKO_BC_OP_LE 0x23
#define YAMABIKO_BC_OP_NEG 0x30
#define YAMABIKO_BC_OP_ABS 0x31
#define YAMABIKO_BC_OP_SQRT 0x32
#define YAMABIKO_BC_OP_NOT 0x33
#define YAMABIKO_BC_OP_SELECT 0x40
#define YAMABIKO_BC_OP_CONVERT 0x41

/* The first word of a program on elements of so many bytes, 1 to YAMABIKO_BC_ELEMENT_MAX. */
#define YAMABIKO_BC_BEGIN(bytes) \
    ((uint64_t)YAMABIKO_BC_MAGIC | (uint64_t)YAMABIKO_BC_VERSION << 32 | (uint64_t)(bytes) << 40)

/* Each other word: opcode, type, dst, a, b and c have 8 bits each from the lowest on, the offset 16. Fields that are not used are 0. */
#define YAMABIKO_BC_WORD(opcode, type, dst, a, b, c, offset) \
    ((uint64_t)(opcode) | (uint64_t)(type) << 8 | (uint64_t)(dst) << 16 | (uint64_t)(a) << 24 | (uint64_t)(b) << 32 | \
     (uint64_t)(c) << 40 | (uint64_t)(offset) << 48)

#define YAMABIKO_BC_LOAD_IN(type, dst, offset) YAMABIKO_BC_WORD(YAMABIKO_BC_OP_LOAD_IN, type, dst, 0, 0, 0, offset)
#define YAMABIKO_BC_LOAD_INOUT(type, dst, offset) YAMABIKO_BC_WORD(YAMABIKO_BC_OP_LOAD_INOUT, type, dst, 0, 0, 0, offset)
#define YAMABIKO_BC_STORE(type, a, offset) YAMABIKO_BC_WORD(YAMABIKO_BC_OP_STORE, type, 0, a, 0, 0, offset)

#define YAMABIKO_BC_CONST_I64(dst, value) YAMABIKO_BC_WORD(YAMABIKO_BC_OP_CONST, YAMABIKO_BC_I64, dst, 0, 0, 0, 0), (uint64_t)(value)
#define YAMABIKO_BC_CONST_F32(dst, value) \
    YAMABIKO_BC_WORD(YAMABIKO_BC_OP_CONST, YAMABIKO_BC_F32, dst, 0, 0, 0, 0), yamabiko_bc_f32(value)
#define YAMABIKO_BC_CONST_F64(dst, value) \
    YAMABIKO_BC_WORD(YAMABIKO_BC_OP_CONST, YAMABIKO_BC_F64, dst, 0, 0, 0, 0), yamabiko_bc_f64(value)

#define YAMABIKO_BC_TWO_(opcode, type, dst, a, b) YAMABIKO_BC_WORD(opcode, type, dst, a, b, 0, 0)
#define YAMABIKO_BC_ADD(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_ADD, type, dst, a, b)
#define YAMABIKO_BC_SUB(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_SUB, type, dst, a, b)
#define YAMABIKO_BC_MUL(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_MUL, type, dst, a, b)
#define YAMABIKO_BC_DIV(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_DIV, type, dst, a, b)
#define YAMABIKO_BC_REM(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_REM, type, dst, a, b)
#define YAMABIKO_BC_MIN(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_MIN, type, dst, a, b)
#define YAMABIKO_BC_MAX(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_MAX, type, dst, a, b)
#define YAMABIKO_BC_AND(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_AND, type, dst, a, b)
#define YAMABIKO_BC_OR(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_OR, type, dst, a, b)
#define YAMABIKO_BC_XOR(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_XOR, type, dst, a, b)
#define YAMABIKO_BC_SHL(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_SHL, type, dst, a, b)
#define YAMABIKO_BC_SHR(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_SHR, type, dst, a, b)
#define YAMABIKO_BC_EQ(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_EQ, type, dst, a, b)
#define YAMABIKO_BC_NE(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_NE, type, dst, a, b)
#define YAMABIKO_BC_LT(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_LT, type, dst, a, b)
#define YAMABIKO_BC_LE(type, dst, a, b) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_LE, type, dst, a, b)

#define YAMABIKO_BC_NEG(type, dst, a) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_NEG, type, dst, a, 0)
#define YAMABIKO_BC_ABS(type, dst, a) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_ABS, type, dst, a, 0)
#define YAMABIKO_BC_SQRT(type, dst, a) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_SQRT, type, dst, a, 0)
#define YAMABIKO_BC_NOT(type, dst, a) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_NOT, type, dst, a, 0)
#define YAMABIKO_BC_SELECT(type, dst, a, b, c) YAMABIKO_BC_WORD(YAMABIKO_BC_OP_SELECT, type, dst, a, b, c, 0)
#define YAMABIKO_BC_CONVERT(to, dst, from, a) YAMABIKO_BC_TWO_(YAMABIKO_BC_OP_CONVERT, to, dst, a, from)

/* The word of a floating-point constant. */
static inline uint64_t yamabiko_bc_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t yamabiko_bc_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#ifdef __cplusplus
}
#endif

#endif
