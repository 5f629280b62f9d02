/* Questions about the environment, before, between and after MPI_Init and MPI_Finalize. */
#include "check.h"
#include <math.h>
#include <unistd.h>

#define EARLY(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            return 1; \
        } \
    } while (0)

int main(int argc, char **argv)
{
    int flag = -1, version = 0, subversion = 0, length = 0, provided = -1;
    static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    EARLY(MPI_Initialized(&flag) == MPI_SUCCESS && flag == 0);
    EARLY(MPI_Finalized(&flag) == MPI_SUCCESS && flag == 0);
    EARLY(MPI_Get_version(&version, &subversion) == MPI_SUCCESS && version == MPI_VERSION && subversion == MPI_SUBVERSION);
    EARLY(MPI_Get_library_version(text, &length) == MPI_SUCCESS && length > 0 && strlen(text) == (size_t)length);
#ifdef MPI_ABI_VERSION
    EARLY(MPI_Abi_get_version(&version, &subversion) == MPI_SUCCESS && version == MPI_ABI_VERSION && subversion == MPI_ABI_SUBVERSION);
#else
    EARLY(MPI_Abi_get_version(&version, &subversion) == MPI_SUCCESS && version == -1 && subversion == -1);
#endif

    int given = argc;
    char *last = argv[argc - 1];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &t_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &t_size));
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    CHECK(argc == given && argv[argc - 1] == last); /* the program's arguments are its own */
    OK(MPI_Query_thread(&flag));
    SAME(flag, provided);
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    OK(MPI_Finalized(&flag));
    CHECK(!flag);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    CHECK(t_rank >= 0 && t_rank < t_size);
    int size;
    OK(MPI_Comm_size(MPI_COMM_SELF, &size));
    SAME(size, 1);

    char host[256] = "";
    OK(MPI_Get_processor_name(text, &length));
    CHECK(length > 0 && length < MPI_MAX_PROCESSOR_NAME && strlen(text) == (size_t)length);
    gethostname(host, sizeof host - 1);
    CHECK(strncmp(text, host, strlen(host)) == 0);

    double tick = MPI_Wtick(), a = MPI_Wtime(), b, ours = t_seconds();
    CHECK(tick > 0 && tick < 0.01);
    do {
        b = MPI_Wtime();
        CHECK(b >= a);
    } while (b == a);
    t_sleep_ms(50);
    double theirs = MPI_Wtime() - a, mine = t_seconds() - ours;
    CHECK(theirs >= 0.045 && fabs(theirs - mine) < 0.02);

    MPI_Info info;
    OK(MPI_Abi_get_info(&info));
    int room = 16;
    OK(MPI_Info_get_string(info, "mpi_aint_size", &room, text, &flag));
    CHECK(flag && strcmp(text, "8") == 0);
    OK(MPI_Info_free(&info));

    void *memory = NULL;
    OK(MPI_Alloc_mem(100000, MPI_INFO_NULL, &memory));
    CHECK(memory != NULL);
    memset(memory, 1, 100000);
    OK(MPI_Free_mem(memory));
    OK(MPI_Pcontrol(1));

    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    EARLY(MPI_Initialized(&flag) == MPI_SUCCESS && flag != 0);
    EARLY(MPI_Finalized(&flag) == MPI_SUCCESS && flag != 0);
    EARLY(MPI_Get_version(&version, &subversion) == MPI_SUCCESS && version == MPI_VERSION);
    if (t_rank == 0)
        printf("ok init\n");
    return 0;
}
