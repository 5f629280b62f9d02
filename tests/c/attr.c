/* Attributes of communicators and datatypes: set, get, delete, copied on duplication, call-backs and
 * their order, the predefined attributes, and MPI_COMM_SELF's at the end of MPI.
 */
#include "check.h"

static int copies, deletions, order[32], orders;
static int veto;

static int copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval;
    CHECK(state == &copies);
    copies++;
    if ((intptr_t)in < 0) {
        *flag = 0; /* this one is not inherited */
    } else {
        *(void **)out = (void *)((intptr_t)in + 1);
        *flag = 1;
    }
    return MPI_SUCCESS;
}

static int removal(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval;
    CHECK(state == &copies);
    if (veto)
        return MPI_ERR_OTHER;
    deletions++;
    if (orders < 32)
        order[orders++] = (int)(intptr_t)value;
    return MPI_SUCCESS;
}

static void communicators(void)
{
    int key, other, flag;
    void *value = NULL;
    MPI_Comm a, b;
    OK(MPI_Comm_create_keyval(copy, removal, &key, &copies));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL));
    CHECK(key != MPI_KEYVAL_INVALID && key != other);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_get_attr(a, key, &value, &flag));
    CHECK(!flag);
    OK(MPI_Comm_set_attr(a, key, (void *)10));
    OK(MPI_Comm_set_attr(a, other, (void *)99));
    OK(MPI_Comm_get_attr(a, key, &value, &flag));
    CHECK(flag);
    SAME((intptr_t)value, 10);
    SAME(deletions, 0);
    OK(MPI_Comm_set_attr(a, key, (void *)20)); /* replacing deletes the old value */
    SAME(deletions, 1);
    SAME(order[0], 10);

    OK(MPI_Comm_dup(a, &b));
    SAME(copies, 1);
    OK(MPI_Comm_get_attr(b, key, &value, &flag));
    CHECK(flag);
    SAME((intptr_t)value, 21);
    OK(MPI_Comm_get_attr(b, other, &value, &flag));
    CHECK(!flag);
    OK(MPI_Comm_free(&b));
    SAME(deletions, 2);

    OK(MPI_Comm_set_attr(a, key, (void *)-5));
    SAME(deletions, 3);
    OK(MPI_Comm_dup(a, &b));
    OK(MPI_Comm_get_attr(b, key, &value, &flag));
    CHECK(!flag);
    OK(MPI_Comm_free(&b));
    SAME(deletions, 3);

    /* split does not copy */
    OK(MPI_Comm_split(a, 0, 0, &b));
    SAME(copies, 2);
    OK(MPI_Comm_get_attr(b, key, &value, &flag));
    CHECK(!flag);
    OK(MPI_Comm_free(&b));

    /* a call-back that refuses: the attribute stays and the call fails */
    OK(MPI_Comm_set_errhandler(a, MPI_ERRORS_RETURN));
    veto = 1;
    CHECK(MPI_Comm_delete_attr(a, key) != MPI_SUCCESS);
    veto = 0;
    OK(MPI_Comm_get_attr(a, key, &value, &flag));
    CHECK(flag);
    OK(MPI_Comm_delete_attr(a, key));
    SAME(deletions, 4);
    OK(MPI_Comm_get_attr(a, key, &value, &flag));
    CHECK(!flag);

    /* a key that was freed lives on in the attributes set with it */
    int was = key;
    OK(MPI_Comm_set_attr(a, key, (void *)7));
    OK(MPI_Comm_free_keyval(&key));
    SAME(key, MPI_KEYVAL_INVALID);
    OK(MPI_Comm_get_attr(a, was, &value, &flag));
    CHECK(flag);
    SAME((intptr_t)value, 7);
    OK(MPI_Comm_free(&a));
    SAME(deletions, 5);
    OK(MPI_Comm_free_keyval(&other));

    /* MPI_COMM_DUP_FN copies the value as it is */
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &a));
    OK(MPI_Comm_set_attr(a, key, &copies));
    OK(MPI_Comm_dup(a, &b));
    OK(MPI_Comm_get_attr(b, key, &value, &flag));
    CHECK(flag && value == &copies);
    OK(MPI_Comm_free(&a));
    OK(MPI_Comm_free(&b));
    OK(MPI_Comm_free_keyval(&key));
}

static int type_copies, type_deletions;

static int type_copy(MPI_Datatype type, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)type, (void)keyval, (void)state;
    type_copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int type_removal(MPI_Datatype type, int keyval, void *value, void *state)
{
    (void)type, (void)keyval, (void)value, (void)state;
    type_deletions++;
    return MPI_SUCCESS;
}

static void datatypes(void)
{
    int key, flag, thing = 3;
    void *value;
    MPI_Datatype a, b;
    OK(MPI_Type_create_keyval(type_copy, type_removal, &key, NULL));
    OK(MPI_Type_contiguous(3, MPI_INT, &a));
    OK(MPI_Type_set_attr(a, key, &thing));
    OK(MPI_Type_dup(a, &b));
    SAME(type_copies, 1);
    OK(MPI_Type_get_attr(b, key, &value, &flag));
    CHECK(flag && value == &thing);
    OK(MPI_Type_delete_attr(b, key));
    SAME(type_deletions, 1);
    OK(MPI_Type_free(&a)); /* a library may keep it until its duplicate goes */
    OK(MPI_Type_free(&b));
    SAME(type_deletions, 2);
    /* attributes of predefined types work too */
    OK(MPI_Type_set_attr(MPI_INT, key, &thing));
    OK(MPI_Type_get_attr(MPI_INT, key, &value, &flag));
    CHECK(flag && value == &thing);
    OK(MPI_Type_delete_attr(MPI_INT, key));
    OK(MPI_Type_free_keyval(&key));
    OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Type_contiguous(2, MPI_CHAR, &a));
    OK(MPI_Type_set_attr(a, key, &copies));
    OK(MPI_Type_dup(a, &b));
    OK(MPI_Type_get_attr(b, key, &value, &flag));
    CHECK(flag && value == &copies);
    OK(MPI_Type_free(&a));
    OK(MPI_Type_free(&b));
    OK(MPI_Type_free_keyval(&key));
}

static void predefined(void)
{
    int *value = NULL, flag, all[] = {0, 0};
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && *value >= 32767);
    int largest = *value, word = 5, got = 0;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, t_rank, largest, &got, 1, MPI_INT, t_rank, largest, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, 5);
    OK(MPI_Allreduce(&largest, all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    SAME(all[0], largest);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &value, &flag));
    if (flag)
        CHECK(*value == MPI_PROC_NULL || (*value >= 0 && *value < t_size));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
    CHECK(flag);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag));
    CHECK(flag && (*value == 0 || *value == 1));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    if (flag)
        CHECK(*value >= t_size);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
    if (flag)
        SAME(*value, 0);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag && *value >= MPI_ERR_LASTCODE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB) != MPI_SUCCESS);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* The old calls, deprecated but part of the ABI. */
static void deprecated(void)
{
    int key, flag;
    void *value;
    MPI_Comm a, b;
    OK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &a));
    OK(MPI_Attr_put(a, key, &copies));
    OK(MPI_Comm_dup(a, &b));
    OK(MPI_Attr_get(b, key, &value, &flag));
    CHECK(flag && value == &copies);
    OK(MPI_Attr_delete(b, key));
    OK(MPI_Attr_get(b, key, &value, &flag));
    CHECK(!flag);
    OK(MPI_Keyval_free(&key));
    OK(MPI_Comm_free(&a));
    OK(MPI_Comm_free(&b));
}

/* At the end MPI_COMM_SELF's attributes go first, the last one set first, and MPI still works. */
static int farewells;

static int farewell(MPI_Comm comm, int keyval, void *value, void *state)
{
    int finalized = 1;
    (void)comm, (void)keyval, (void)state;
    MPI_Finalized(&finalized);
    if (finalized || (int)(intptr_t)value != 3 - farewells) {
        fprintf(stderr, "rank %d: attribute %d deleted in place %d, finalized %d\n", t_rank, (int)(intptr_t)value, farewells,
                finalized);
        exit(1);
    }
    farewells++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    communicators();
    datatypes();
    predefined();
    deprecated();
    for (intptr_t i = 1; i <= 3; i++) {
        int key;
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, farewell, &key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, (void *)i));
        OK(MPI_Comm_free_keyval(&key));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    if (farewells != 3) {
        fprintf(stderr, "rank %d: %d of 3 attributes of MPI_COMM_SELF were deleted\n", t_rank, farewells);
        return 1;
    }
    if (t_rank == 0)
        printf("ok attr\n");
    return 0;
}
