/* Info objects: set, get, delete, order of keys, duplicates, long values, the environment's. */
#include "check.h"

int main(int argc, char **argv)
{
    /* allowed before MPI_Init */
    MPI_Info info, copy;
    char value[MPI_MAX_INFO_VAL + 1], key[MPI_MAX_INFO_KEY + 1];
    int flag, n, length, size, early_pairs = -1;
    if (MPI_Info_create_env(argc, argv, &info) != MPI_SUCCESS || MPI_Info_get_nkeys(info, &early_pairs) != MPI_SUCCESS
        || MPI_Info_free(&info) != MPI_SUCCESS)
        return 1;
    if (MPI_Info_create(&info) != MPI_SUCCESS || MPI_Info_set(info, "early", "yes") != MPI_SUCCESS)
        return 1;
    t_init(&argc, &argv);
    size = sizeof value;
    OK(MPI_Info_get_string(info, "early", &size, value, &flag));
    CHECK(flag && strcmp(value, "yes") == 0 && size == 4);
    OK(MPI_Info_delete(info, "early"));
    OK(MPI_Info_get_nkeys(info, &n));
    SAME(n, 0);

    OK(MPI_Info_set(info, "mountain", "first"));
    OK(MPI_Info_set(info, "  river ", " spaces around "));
    OK(MPI_Info_set(info, "mountain", "second"));
    OK(MPI_Info_get_nkeys(info, &n));
    SAME(n, 2);
    size = sizeof value;
    OK(MPI_Info_get_string(info, "mountain", &size, value, &flag));
    CHECK(flag && strcmp(value, "second") == 0 && size == 7);
    /* too little room: cut, and the length that it takes */
    size = 4;
    memset(value, '#', sizeof value);
    OK(MPI_Info_get_string(info, "mountain", &size, value, &flag));
    CHECK(flag && strcmp(value, "sec") == 0 && size == 7 && value[4] == '#');
    size = 0;
    OK(MPI_Info_get_string(info, "mountain", &size, value, &flag));
    CHECK(flag && size == 7);
    size = 5;
    OK(MPI_Info_get_string(info, "nowhere", &size, value, &flag));
    CHECK(!flag && size == 5);

    for (int i = 0; i < 100; i++) {
        char k[32], v[32];
        snprintf(k, sizeof k, "key%d", i);
        snprintf(v, sizeof v, "value %d", i * i);
        OK(MPI_Info_set(info, k, v));
    }
    OK(MPI_Info_get_nkeys(info, &n));
    SAME(n, 102);
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_set(info, "key3", "changed"));
    int latin_room = 16, latin_found;
    char latin[16];
    OK(MPI_Info_set(info, "\xe9t\xe9", "no\xebl"));
    OK(MPI_Info_get_string(info, "\xe9t\xe9", &latin_room, latin, &latin_found));
    CHECK(latin_found && latin_room == 5 && strcmp(latin, "no\xebl") == 0);
    OK(MPI_Info_delete(info, "\xe9t\xe9"));
    size = sizeof value;
    OK(MPI_Info_get_string(copy, "key3", &size, value, &flag));
    CHECK(flag && strcmp(value, "value 9") == 0);
    int found = 0;
    for (int i = 0; i < n; i++) {
        char again[MPI_MAX_INFO_KEY + 1];
        OK(MPI_Info_get_nthkey(info, i, key));
        OK(MPI_Info_get_nthkey(copy, i, again));
        CHECK(strcmp(key, again) == 0); /* the duplicate keeps the order */
        found += strncmp(key, "key", 3) == 0;
    }
    SAME(found, 100);
    OK(MPI_Info_free(&copy));
    CHECK(copy == MPI_INFO_NULL);

    /* the longest key and value */
    memset(key, 'k', sizeof key);
    key[MPI_MAX_INFO_KEY - 1] = '\0';
    memset(value, 'v', sizeof value);
    value[MPI_MAX_INFO_VAL - 1] = '\0';
    OK(MPI_Info_set(info, key, value));
    OK(MPI_Info_get_valuelen(info, key, &length, &flag));
    CHECK(flag && length == MPI_MAX_INFO_VAL - 1);
    memset(value, 0, sizeof value);
    OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL - 1, value, &flag));
    CHECK(flag && strlen(value) == MPI_MAX_INFO_VAL - 1);
    OK(MPI_Info_get_valuelen(info, "nowhere", &length, &flag));
    CHECK(!flag);
    OK(MPI_Info_free(&info));

    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Info_create(&info));
    FAILS(MPI_Info_delete(info, "nowhere"), MPI_ERR_INFO_NOKEY);
    OK(MPI_Info_free(&info));

    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &n));
    CHECK(n >= 0);
    OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", MPI_MAX_INFO_VAL - 1, value, &flag));
    /* Our library knows it where our launcher has begun the job. */
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Get_library_version(version, &length));
    if (strstr(version, "Yamabiko") && getenv("YAMABIKO_REPORT_FD"))
        CHECK(flag);
    CHECK(!flag || atoi(value) == t_size);
    OK(MPI_Info_create_env(argc, argv, &info));
    OK(MPI_Info_get_nkeys(info, &n));
    if (strstr(version, "Yamabiko"))
        SAME(n, early_pairs); /* as many as were known before MPI_Init */
    OK(MPI_Info_free(&info));
    return t_done("info");
}
