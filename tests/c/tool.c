/* The tool information interface: control variables, which are the tunables that `yamabiko info` shows, and performance variables, which count the collectives that each executor has run, and the time stamp of the kernel's
 * receive path. The argument is the executor that has to have run some, by these counters; default: inline.
 */
#include "check.h"
#include <time.h>

enum { EXECUTORS = 4, COUNTERS = EXECUTORS + 2, ROUNDS = 20, N = 20000, ROOM = 256, SHORT = 9 };

static const char *const names[COUNTERS] = {
    "yamabiko_collectives_inline",
    "yamabiko_collectives_ring",
    "yamabiko_collectives_softirq",
    "yamabiko_collectives_thread",
    "yamabiko_ring_by_program",
    "yamabiko_ring_in_signals",
};

static const char stamp[] = "yamabiko_softirq_ended";

/* The errors of this interface are codes of their own. */
#define REFUSED(call, code) SAME((call), (code))

static void described(int index)
{
    char name[ROOM] = "", text[ROOM] = "", little[SHORT];
    int verbosity, class, bind, readonly, continuous, atomic, found, n = ROOM, m = ROOM;
    MPI_Datatype type;
    MPI_T_enum members;
    OK(MPI_T_pvar_get_info(index, name, &n, &verbosity, &class, &type, &members, text, &m, &bind, &readonly, &continuous, &atomic));
    SAME(n, strlen(name) + 1);
    SAME(m, strlen(text) + 1);
    CHECK(n > SHORT && m > 1 && members == MPI_T_ENUM_NULL && type == MPI_UNSIGNED_LONG_LONG);
    SAME(class, strcmp(name, stamp) ? MPI_T_PVAR_CLASS_COUNTER : MPI_T_PVAR_CLASS_GENERIC);
    SAME(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    SAME(bind, MPI_T_BIND_NO_OBJECT);
    CHECK(readonly == 1 && continuous == 1 && atomic == 0);
    OK(MPI_T_pvar_get_index(name, class, &found));
    SAME(found, index);
    REFUSED(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_LEVEL, &found), MPI_T_ERR_INVALID_NAME);

    /* What is too long is cut, and told how long it is; NULL says that nobody wants to know. */
    m = SHORT;
    OK(MPI_T_pvar_get_info(index, little, &m, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    SAME(m, n);
    CHECK(strlen(little) == SHORT - 1 && strncmp(little, name, SHORT - 1) == 0);
    m = 0;
    OK(MPI_T_pvar_get_info(index, little, &m, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    SAME(m, n);
    OK(MPI_T_pvar_get_info(index, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
}

/* All are constants, each with a name of its own, a text and a value that stays. */
static void controls(void)
{
    MPI_T_cvar_handle handle, kept;
    unsigned long long value, eager = 0, again = 0;
    int all = -1, index = -1, n;
    OK(MPI_T_cvar_get_num(&all));
    CHECK(all > 20);
    for (int i = 0; i < all; i++) {
        char name[ROOM] = "", text[ROOM] = "", little[SHORT];
        int verbosity, bind, scope, m = ROOM;
        MPI_Datatype type;
        MPI_T_enum members;
        n = ROOM;
        OK(MPI_T_cvar_get_info(i, name, &n, &verbosity, &type, &members, text, &m, &bind, &scope));
        SAME(n, strlen(name) + 1);
        SAME(m, strlen(text) + 1);
        CHECK(strncmp(name, "yamabiko_", 9) == 0 && strncmp(text, "in ", 3) == 0);
        CHECK(type == MPI_UNSIGNED_LONG_LONG && members == MPI_T_ENUM_NULL && bind == MPI_T_BIND_NO_OBJECT);
        SAME(scope, MPI_T_SCOPE_CONSTANT);
        SAME(verbosity, MPI_T_VERBOSITY_TUNER_DETAIL);
        OK(MPI_T_cvar_get_index(name, &index));
        SAME(index, i);
        m = SHORT;
        OK(MPI_T_cvar_get_info(i, little, &m, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
        SAME(m, n);
        CHECK(strlen(little) == SHORT - 1);
        value = ~0ull;
        OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &n));
        SAME(n, 1);
        OK(MPI_T_cvar_read(handle, &value));
        CHECK(value != ~0ull);
        REFUSED(MPI_T_cvar_write(handle, &value), MPI_T_ERR_CVAR_SET_NEVER);
        kept = handle;
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
        REFUSED(MPI_T_cvar_read(kept, &value), MPI_T_ERR_INVALID_HANDLE);
        if (strcmp(name, "yamabiko_shm_eager_max") == 0)
            eager = value;
    }
    CHECK(eager >= 48 && eager <= 1 << 20);
    OK(MPI_T_cvar_get_index("yamabiko_shm_eager_max", &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &n));
    OK(MPI_T_cvar_read(handle, &again));
    CHECK(again == eager);
    REFUSED(MPI_T_cvar_read(handle, NULL), MPI_T_ERR_INVALID);
    OK(MPI_T_cvar_handle_free(&handle));
    REFUSED(MPI_T_cvar_get_index("nothing", &index), MPI_T_ERR_INVALID_NAME);
    REFUSED(MPI_T_cvar_get_info(all, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    REFUSED(MPI_T_cvar_handle_alloc(-1, NULL, &handle, &n), MPI_T_ERR_INVALID_INDEX);
}

/* The variable of this name. */
static unsigned long long value_of(const char *name, int class)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long value = ~0ull;
    int index = -1, n = 0;
    OK(MPI_T_pvar_get_index(name, class, &index));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &n));
    SAME(n, 1);
    OK(MPI_T_pvar_read(session, handle, &value));
    OK(MPI_T_pvar_handle_free(session, &handle));
    CHECK(handle == MPI_T_PVAR_HANDLE_NULL);
    OK(MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
    return value;
}

static unsigned long long count(const char *name)
{
    return value_of(name, MPI_T_PVAR_CLASS_COUNTER);
}

/* Nanoseconds of the clock that the stamp is of. */
static unsigned long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000ull * (unsigned long long)t.tv_sec + (unsigned long long)t.tv_nsec;
}

/* A barrier ends after the last rank has begun it, and before any sees that; no other executor has such a time. */
static void stamped(int by_softirq)
{
    unsigned long long begun, last, ended, before;
    MPI_Request r;
    for (int round = 0; round < ROUNDS; round++) {
        before = value_of(stamp, MPI_T_PVAR_CLASS_GENERIC);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        begun = now();
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        ended = value_of(stamp, MPI_T_PVAR_CLASS_GENERIC);
        OK(MPI_Allreduce(&begun, &last, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD));
        if (by_softirq)
            CHECK(ended > before && ended >= last && ended <= now());
        else
            SAME(ended, 0);
    }
}

/* What can't be done fails with the error for it. */
static void refused(void)
{
    MPI_T_pvar_session one, other, gone;
    MPI_T_pvar_handle handle, freed;
    unsigned long long value = 5;
    int n, all = -1;
    OK(MPI_T_pvar_get_num(&all));
    CHECK(all > COUNTERS);
    REFUSED(MPI_T_pvar_get_info(all, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    REFUSED(MPI_T_pvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    OK(MPI_T_pvar_session_create(&one));
    OK(MPI_T_pvar_session_create(&other));
    OK(MPI_T_pvar_handle_alloc(one, 0, NULL, &handle, &n));
    REFUSED(MPI_T_pvar_handle_alloc(one, all, NULL, &freed, &n), MPI_T_ERR_INVALID_INDEX);
    REFUSED(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
    REFUSED(MPI_T_pvar_start(one, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
    REFUSED(MPI_T_pvar_stop(one, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
    REFUSED(MPI_T_pvar_write(one, handle, &value), MPI_T_ERR_PVAR_NO_WRITE);
    REFUSED(MPI_T_pvar_reset(one, handle), MPI_T_ERR_PVAR_NO_WRITE);
    REFUSED(MPI_T_pvar_readreset(one, handle, &value), MPI_T_ERR_PVAR_NO_ATOMIC);
    OK(MPI_T_pvar_start(one, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_stop(one, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_reset(one, MPI_T_PVAR_ALL_HANDLES));
    SAME(value, 5);
    freed = handle;
    gone = one;
    OK(MPI_T_pvar_session_free(&one));
    REFUSED(MPI_T_pvar_read(gone, freed, &value), MPI_T_ERR_INVALID_SESSION);
    REFUSED(MPI_T_pvar_read(other, freed, &value), MPI_T_ERR_INVALID_HANDLE);
    REFUSED(MPI_T_pvar_read(other, MPI_T_PVAR_HANDLE_NULL, &value), MPI_T_ERR_INVALID_HANDLE);
    REFUSED(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, handle, &value), MPI_T_ERR_INVALID_SESSION);
    OK(MPI_T_pvar_session_free(&other));
}

/* Non-blocking and persistent collectives, that go on while ranks compute: how many. */
static int collectives(void)
{
    static int data[N];
    volatile double x = 1;
    int sum, n = 0;
    MPI_Request r, kept;
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &kept));
    for (int round = 0; round < ROUNDS; round++) {
        for (int length = 4; length <= N; length *= N / 4, n++) {
            OK(MPI_Ibcast(data, length, MPI_INT, round % t_size, MPI_COMM_WORLD, &r));
            for (int i = 0; i < 1000000; i++)
                x = x * 0.5 + 1;
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        }
        OK(MPI_Iallreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        SAME(sum, round * t_size);
        OK(MPI_Start(&kept));
        OK(MPI_Wait(&kept, MPI_STATUS_IGNORE));
        n += 2;
    }
    OK(MPI_Request_free(&kept));
    return n;
}

int main(int argc, char **argv)
{
    int provided = -1, all = -1, wanted = 0;
    REFUSED(MPI_T_pvar_get_num(&all), MPI_T_ERR_NOT_INITIALIZED);
    REFUSED(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    SAME(provided, MPI_THREAD_SINGLE);
    OK(MPI_T_pvar_get_num(&all));
    for (int i = 0; i < all; i++)
        described(i);
    refused();
    for (int i = 0; i < COUNTERS; i++)
        SAME(count(names[i]), 0);
    SAME(value_of(stamp, MPI_T_PVAR_CLASS_GENERIC), 0);
    REFUSED(MPI_T_category_get_index("nothing", &all), MPI_T_ERR_INVALID_NAME);
    REFUSED(MPI_T_event_get_index("nothing", &all), MPI_T_ERR_INVALID_NAME);
    controls();
    OK(MPI_T_category_get_num(&all));
    SAME(all, 0);

    t_init(&argc, &argv);
    for (int i = 1; i < EXECUTORS && argc > 1; i++)
        if (strstr(names[i], argv[1]) != NULL)
            wanted = i;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_finalize());
    refused();
    controls();
    unsigned long long ran = 0, sum = 0;
    int n = collectives();
    for (int i = 0; i < EXECUTORS; i++) {
        unsigned long long here = count(names[i]);
        ran += here;
        if (i == wanted)
            sum = here;
    }
    SAME(ran, n);
    if (wanted == 0)
        SAME(sum, n);
    OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum > 0);
    stamped(strstr(names[wanted], "softirq") != NULL);
    t_done("tool");
    SAME(count(names[wanted]) > 0 || wanted == 3, 1);
    OK(MPI_T_finalize());
    REFUSED(MPI_T_pvar_get_num(&all), MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
