/* Packing: MPI_Pack, MPI_Unpack, MPI_Pack_size, sending what was packed, and the portable format
 * "external32" byte by byte (of a derived type: pack_derived.c).
 */
#include "check.h"

static void packed_messages(void)
{
    int right = (t_rank + 1) % t_size, left = (t_rank + t_size - 1) % t_size;
    char text[8] = "echo", got_text[8] = "";
    int numbers[3] = {t_rank, 2, 3}, got_numbers[3] = {0}, need, sum = 0, at = 0;
    double real = 2.5 * t_rank, got_real = 0;
    OK(MPI_Pack_size(8, MPI_CHAR, MPI_COMM_WORLD, &need));
    sum += need;
    OK(MPI_Pack_size(3, MPI_INT, MPI_COMM_WORLD, &need));
    CHECK(need >= 12);
    sum += need;
    OK(MPI_Pack_size(1, MPI_DOUBLE, MPI_COMM_WORLD, &need));
    sum += need;
    char *buffer = t_alloc((size_t)sum), *other = t_alloc((size_t)sum);
    OK(MPI_Pack(text, 8, MPI_CHAR, buffer, sum, &at, MPI_COMM_WORLD));
    OK(MPI_Pack(numbers, 3, MPI_INT, buffer, sum, &at, MPI_COMM_WORLD));
    OK(MPI_Pack(&real, 1, MPI_DOUBLE, buffer, sum, &at, MPI_COMM_WORLD));
    CHECK(at <= sum);
    MPI_Status s;
    OK(MPI_Sendrecv(buffer, at, MPI_PACKED, right, 0, other, sum, MPI_PACKED, left, 0, MPI_COMM_WORLD, &s));
    int count;
    OK(MPI_Get_count(&s, MPI_PACKED, &count));
    SAME(count, at);
    int end = at;
    at = 0;
    OK(MPI_Unpack(other, end, &at, got_text, 8, MPI_CHAR, MPI_COMM_WORLD));
    OK(MPI_Unpack(other, end, &at, got_numbers, 3, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Unpack(other, end, &at, &got_real, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    SAME(at, end);
    CHECK(strcmp(got_text, "echo") == 0 && got_numbers[0] == left && got_numbers[2] == 3 && got_real == 2.5 * left);

    /* a packed message may be received as what it was packed from, and the other way round */
    at = 0;
    OK(MPI_Pack(numbers, 3, MPI_INT, buffer, sum, &at, MPI_COMM_WORLD));
    memset(got_numbers, 0, sizeof got_numbers);
    OK(MPI_Sendrecv(buffer, at, MPI_PACKED, right, 0, got_numbers, 3, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got_numbers[0] == left && got_numbers[1] == 2);
    OK(MPI_Sendrecv(numbers, 3, MPI_INT, right, 0, other, sum, MPI_PACKED, left, 0, MPI_COMM_WORLD, &s));
    OK(MPI_Get_count(&s, MPI_PACKED, &end));
    at = 0;
    memset(got_numbers, 0, sizeof got_numbers);
    OK(MPI_Unpack(other, end, &at, got_numbers, 3, MPI_INT, MPI_COMM_WORLD));
    CHECK(got_numbers[0] == left && got_numbers[2] == 3);

    /* large-count forms */
    MPI_Count need_c, at_c = 0;
    OK(MPI_Pack_size_c(3, MPI_INT, MPI_COMM_WORLD, &need_c));
    CHECK(need_c >= 12);
    OK(MPI_Pack_c(numbers, 3, MPI_INT, buffer, sum, &at_c, MPI_COMM_WORLD));
    MPI_Count end_c = at_c;
    at_c = 0;
    memset(got_numbers, 0, sizeof got_numbers);
    OK(MPI_Unpack_c(buffer, end_c, &at_c, got_numbers, 3, MPI_INT, MPI_COMM_WORLD));
    CHECK(got_numbers[0] == t_rank && at_c == end_c);
    MPI_Count huge = (MPI_Count)1 << 33;
    OK(MPI_Pack_size_c(huge, MPI_INT, MPI_COMM_WORLD, &need_c));
    CHECK(need_c >= 4 * huge);
    free(buffer);
    free(other);
}

/* One type: `count` elements of it become exactly these bytes, and come back. */
static void external(const char *file, int line, MPI_Datatype type, int count, const void *in, size_t bytes, int n,
                     const unsigned char *want)
{
    unsigned char packed[256], back[256];
    MPI_Aint size, at = 0;
    memset(packed, 0xEE, sizeof packed);
    memset(back, 0xDD, sizeof back);
    OK(MPI_Pack_external_size("external32", count, type, &size));
    if (size != n)
        t_fail(file, line, "%ld bytes, not %d", (long)size, n);
    OK(MPI_Pack_external("external32", in, count, type, packed, sizeof packed, &at));
    if (at != n)
        t_fail(file, line, "%ld bytes were packed, not %d", (long)at, n);
    for (int i = 0; i < n; i++)
        if (packed[i] != want[i])
            t_fail(file, line, "byte %d is %02x, not %02x", i, packed[i], want[i]);
    CHECK(packed[n] == 0xEE);
    at = 0;
    OK(MPI_Unpack_external("external32", packed, n, &at, back, count, type));
    SAME(at, n);
    if (memcmp(back, in, bytes) != 0)
        t_fail(file, line, "did not come back");
    CHECK(back[bytes] == 0xDD);
}

#define EXTERNAL(type, count, in, ...) \
    do { \
        static const unsigned char want_[] = {__VA_ARGS__}; \
        external(__FILE__, __LINE__, type, count, in, sizeof in, (int)sizeof want_, want_); \
    } while (0)

static void portable(void)
{
    EXTERNAL(MPI_INT, 2, ((int[]){0x01020304, -2}), 1, 2, 3, 4, 0xff, 0xff, 0xff, 0xfe);
    EXTERNAL(MPI_SHORT, 1, ((short[]){0x0102}), 1, 2);
    EXTERNAL(MPI_CHAR, 3, ((char[]){'a', 'b', 'c'}), 'a', 'b', 'c');
    EXTERNAL(MPI_BYTE, 2, ((char[]){7, 8}), 7, 8);
    EXTERNAL(MPI_LONG_LONG, 1, ((long long[]){0x0102030405060708}), 1, 2, 3, 4, 5, 6, 7, 8);
    EXTERNAL(MPI_FLOAT, 1, ((float[]){1.0f}), 0x3f, 0x80, 0, 0);
    EXTERNAL(MPI_DOUBLE, 2, ((double[]){1.0, -2.5}), 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0x04, 0, 0, 0, 0, 0, 0);
    EXTERNAL(MPI_INT16_T, 2, ((int16_t[]){1, -1}), 0, 1, 0xff, 0xff);
    EXTERNAL(MPI_UINT64_T, 1, ((uint64_t[]){0xfffefdfcfbfaf9f8u}), 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8);
    EXTERNAL(MPI_C_FLOAT_COMPLEX, 1, ((float[]){1.0f, -1.0f}), 0x3f, 0x80, 0, 0, 0xbf, 0x80, 0, 0);

    unsigned char packed[32];
    MPI_Count size_c, at_c = 0;
    int one = 0x11223344;
    OK(MPI_Pack_external_size_c("external32", 1, MPI_INT, &size_c));
    SAME(size_c, 4);
    OK(MPI_Pack_external_c("external32", &one, 1, MPI_INT, packed, 32, &at_c));
    SAME(at_c, 4);
    CHECK(packed[0] == 0x11);
    at_c = 0, one = 0;
    OK(MPI_Unpack_external_c("external32", packed, 4, &at_c, &one, 1, MPI_INT));
    SAME(one, 0x11223344);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    packed_messages();
    portable();
    return t_done("pack");
}
