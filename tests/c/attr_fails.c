/* Callbacks of attributes that return errors: what was copied before is deleted again, and MPI ends all the same.
 */
#include "check.h"

static int copied, deleted, parting;

static int copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)state;
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int no_copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)state, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static int removal(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)state;
    CHECK((intptr_t)value == 7);
    deleted++;
    return MPI_SUCCESS;
}

static int type_copy(MPI_Datatype type, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)type;
    return copy(MPI_COMM_NULL, keyval, state, in, out, flag);
}

static int no_type_copy(MPI_Datatype type, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)type, (void)keyval, (void)state, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static int type_removal(MPI_Datatype type, int keyval, void *value, void *state)
{
    (void)type;
    return removal(MPI_COMM_NULL, keyval, value, state);
}

static int no_removal(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    parting++;
    return MPI_ERR_OTHER;
}

/* Two attributes that are copied on both sides of one that is not; the order of copying is the library's. */
static void communicators(void)
{
    int keys[3];
    MPI_Comm comm, other = MPI_COMM_NULL;
    MPI_Request request;
    OK(MPI_Comm_create_keyval(copy, removal, &keys[0], NULL));
    OK(MPI_Comm_create_keyval(no_copy, removal, &keys[1], NULL));
    OK(MPI_Comm_create_keyval(copy, removal, &keys[2], NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 3; i++)
        OK(MPI_Comm_set_attr(comm, keys[i], (void *)7));
    copied = deleted = 0;
    FAILS(MPI_Comm_dup(comm, &other), MPI_ERR_OTHER);
    CHECK(copied == 1 && deleted == 1 && other == MPI_COMM_NULL);
    FAILS(MPI_Comm_idup(comm, &other, &request), MPI_ERR_OTHER);
    CHECK(copied == 2 && deleted == 2);
    OK(MPI_Comm_free(&comm));
    CHECK(deleted == 5);
    for (int i = 0; i < 3; i++)
        OK(MPI_Comm_free_keyval(&keys[i]));
}

static void datatypes(void)
{
    int keys[2];
    MPI_Datatype type, other;
    OK(MPI_Type_create_keyval(type_copy, type_removal, &keys[0], NULL));
    OK(MPI_Type_create_keyval(no_type_copy, type_removal, &keys[1], NULL));
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    for (int i = 0; i < 2; i++)
        OK(MPI_Type_set_attr(type, keys[i], (void *)7));
    copied = deleted = 0;
    FAILS(MPI_Type_dup(type, &other), MPI_ERR_OTHER);
    CHECK(copied == deleted);
    OK(MPI_Type_free(&type));
    CHECK(deleted == copied + 2);
    for (int i = 0; i < 2; i++)
        OK(MPI_Type_free_keyval(&keys[i]));
}

int main(int argc, char **argv)
{
    int finalized;
    t_init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    communicators();
    datatypes();
    /* One rank's fails; all of them end. */
    if (t_rank == 0) {
        int key;
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, no_removal, &key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 0)
        CHECK(MPI_Finalize() == MPI_ERR_OTHER);
    else
        OK(MPI_Finalize());
    OK(MPI_Finalized(&finalized));
    CHECK(finalized && parting == (t_rank == 0 ? 2 : 0));
    if (t_rank == 0)
        printf("ok attr_fails\n");
    return 0;
}
