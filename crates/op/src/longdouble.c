/* Reductions of long double, _Float128 and complex numbers of them, which Rust has no types for.
 * Each function does inout[i] = in[i] op inout[i] for n elements; addresses need no alignment. */

#include <stddef.h>

#if defined(__x86_64__)
typedef long double extended __attribute__((aligned(1), may_alias));
#else
#error "no extended type is defined for this architecture"
#endif
typedef _Float128 quad __attribute__((aligned(1), may_alias));
typedef int location __attribute__((aligned(1), may_alias));

#define EACH(NAME, TYPE, RESULT)                                                     \
    void yamabiko_op_##NAME(const void *in, void *inout, size_t n) {                 \
        const TYPE *x = in;                                                          \
        TYPE *y = inout;                                                             \
        for (size_t i = 0; i < n; i++) {                                             \
            TYPE a = x[i], b = y[i];                                                 \
            y[i] = RESULT;                                                           \
        }                                                                            \
    }

/* A complex number is two numbers; the product is the plain formula, as for the smaller types. */
#define COMPLEX_PRODUCT(NAME, TYPE)                                                  \
    void yamabiko_op_##NAME(const void *in, void *inout, size_t n) {                 \
        const TYPE *x = in;                                                          \
        TYPE *y = inout;                                                             \
        for (size_t i = 0; i < 2 * n; i += 2) {                                      \
            TYPE re = x[i] * y[i] - x[i + 1] * y[i + 1];                             \
            TYPE im = x[i] * y[i + 1] + x[i + 1] * y[i];                             \
            y[i] = re;                                                               \
            y[i + 1] = im;                                                           \
        }                                                                            \
    }

#define ARITHMETIC(NAME, TYPE)                                                       \
    EACH(NAME##_max, TYPE, a > b ? a : b)                                            \
    EACH(NAME##_min, TYPE, a < b ? a : b)                                            \
    EACH(NAME##_sum, TYPE, a + b)                                                    \
    EACH(NAME##_prod, TYPE, a *b)                                                    \
    COMPLEX_PRODUCT(NAME##_complex_prod, TYPE)

ARITHMETIC(f80, extended)
ARITHMETIC(f128, quad)

/* struct { long double value; int location; }: 32 bytes, the int at 16. */
#define LOCATE(NAME, BETTER)                                                         \
    void yamabiko_op_##NAME(const void *in, void *inout, size_t n) {                 \
        const char *x = in;                                                          \
        char *y = inout;                                                             \
        for (size_t i = 0; i < n; i++, x += 32, y += 32) {                           \
            extended a = *(const extended *)x, b = *(extended *)y;                   \
            location k = *(const location *)(x + 16), *l = (location *)(y + 16);     \
            if (a BETTER b) {                                                        \
                *(extended *)y = a;                                                  \
                *l = k;                                                              \
            } else if (a == b && k < *l) {                                           \
                *l = k;                                                              \
            }                                                                        \
        }                                                                            \
    }

LOCATE(f80_maxloc, >)
LOCATE(f80_minloc, <)
