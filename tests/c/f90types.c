/* Types by decimal precision, MPI_Type_create_f90_*: usable, of the right size, the same handle for the
 * same request, and an envelope that says how they were made.  The long forms of external32.
 */
#include "check.h"

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    MPI_Datatype t, again;
    int size, ni, na, nd, combiner, integers[2];
    static const struct {
        int digits, size;
    } kinds[] = {{2, 1}, {4, 2}, {9, 4}, {18, 8}};
    for (int i = 0; i < 4; i++) {
        OK(MPI_Type_create_f90_integer(kinds[i].digits, &t));
        OK(MPI_Type_size(t, &size));
        SAME(size, kinds[i].size);
        OK(MPI_Type_create_f90_integer(kinds[i].digits, &again));
        CHECK(t == again);
        OK(MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner));
        CHECK(combiner == MPI_COMBINER_F90_INTEGER && ni == 1 && na == 0 && nd == 0);
        OK(MPI_Type_get_contents(t, 1, 0, 0, integers, NULL, NULL));
        SAME(integers[0], kinds[i].digits);
    }
    OK(MPI_Type_create_f90_real(6, 30, &t));
    OK(MPI_Type_size(t, &size));
    SAME(size, 4);
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &t));
    OK(MPI_Type_size(t, &size));
    SAME(size, 8);
    OK(MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_F90_REAL && ni == 2);
    OK(MPI_Type_get_contents(t, 2, 0, 0, integers, NULL, NULL));
    CHECK(integers[0] == 15 && integers[1] == MPI_UNDEFINED);
    OK(MPI_Type_create_f90_complex(15, 300, &t));
    OK(MPI_Type_size(t, &size));
    SAME(size, 16);
    /* used without commit, also in a reduction */
    double in[2] = {1.0, 2.0}, out[2] = {0, 0};
    OK(MPI_Allreduce(in, out, 1, t, MPI_SUM, MPI_COMM_WORLD));
    CHECK(out[0] == t_size && out[1] == 2.0 * t_size);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(MPI_Type_create_f90_real(10000, MPI_UNDEFINED, &t) != MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_integer(1000, &t) != MPI_SUCCESS);

    /* long double is 16 bytes of IEEE quad in the portable format */
    unsigned char packed[32];
    MPI_Aint at = 0;
    long double quad = 1.0L, back = 0;
    OK(MPI_Pack_external("external32", &quad, 1, MPI_LONG_DOUBLE, packed, sizeof packed, &at));
    SAME(at, 16);
    CHECK(packed[0] == 0x3f && packed[1] == 0xff && packed[2] == 0);
    at = 0;
    OK(MPI_Unpack_external("external32", packed, 16, &at, &back, 1, MPI_LONG_DOUBLE));
    CHECK(back == 1.0L);
    return t_done("f90types");
}
