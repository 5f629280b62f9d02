/* "external32" of a derived type with a gap.  (MPICH 5.0.2 dies in MPI_Pack_external_size of a struct.) */
#include "check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    MPI_Datatype t;
    struct {
        char c;
        int i;
        short s[2];
    } value, got;
    memset(&value, 0, sizeof value);
    memset(&got, 0, sizeof got);
    value.c = 'z', value.i = 0x0a0b0c0d, value.s[0] = 1, value.s[1] = 0x0203;
    int lengths[] = {1, 1, 2};
    MPI_Aint places[] = {0, 4, 8}, size, at = 0;
    MPI_Datatype kinds[] = {MPI_CHAR, MPI_INT, MPI_SHORT};
    OK(MPI_Type_create_struct(3, lengths, places, kinds, &t));
    OK(MPI_Type_commit(&t));
    unsigned char packed[32];
    static const unsigned char want[] = {'z', 0x0a, 0x0b, 0x0c, 0x0d, 0, 1, 2, 3};
    OK(MPI_Pack_external_size("external32", 1, t, &size));
    SAME(size, 9);
    OK(MPI_Pack_external("external32", &value, 1, t, packed, sizeof packed, &at));
    SAME(at, 9);
    CHECK(memcmp(packed, want, 9) == 0);
    at = 0;
    OK(MPI_Unpack_external("external32", packed, 9, &at, &got, 1, t));
    CHECK(memcmp(&value, &got, sizeof got) == 0);
    OK(MPI_Type_free(&t));
    return t_done("pack_derived");
}
