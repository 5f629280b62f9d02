/* A rank dies while the others go on with one kind of collective.  Each of these learns of it in that collective, wherever in it it
 * waits, and in every later one of that communicator; they go on without the dead, and finalize.
 *
 * To be run with mpiexec -disable-auto-cleanup.
 *
 * Arguments: the collective; which rank dies; "software" for collectives by messages, "midway" for a death at any time instead of between
 * two collectives.
 */
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { SHORT = 1, LONG = 25000, ROUNDS = 20, MOST = 5000 };

static double data[LONG], work[LONG];

/* Where `all` go on, what has been made is freed again; where a rank dies meanwhile, some may have made what others have not. */
static int once(const char *what, int comm, int members, int all) {
    int ier = -1, made = FMPL_COMM_NULL, code = -1;
    size_t n = strstr(what, "-long") ? LONG : SHORT, bytes = n * sizeof *data;
    for (size_t i = 0; i < n; i++)
        data[i] = 1;
    if (strncmp(what, "barrier", 7) == 0)
        code = fmpl_barrier(comm, &ier);
    else if (strncmp(what, "bcast", 5) == 0)
        code = fmpl_bcast(data, bytes, members / 2, comm, &ier);
    else if (strncmp(what, "reduce", 6) == 0)
        code = fmpl_reduce(data, n, fmpl_dsum, members / 2, comm, work, &ier);
    else if (strncmp(what, "allreduce", 9) == 0) {
        code = fmpl_allreduce(data, n, fmpl_dsum, comm, work, &ier);
        for (size_t i = 0; code == FMPL_SUCCESS && i < n; i++)
            CHECK(data[i] == members);
    } else if (strncmp(what, "create", 6) == 0) {
        /* All of the world call it, whatever else `comm` is. */
        code = fmpl_comm_create(&made, me % 2 + 1, &ier);
        if (code == FMPL_SUCCESS) {
            CHECK(made != FMPL_COMM_NULL);
            if (all) {
                OK(fmpl_comm_free(&made, &ier));
                CHECK(made == FMPL_COMM_NULL);
            }
        }
    }
    CHECK(code == ier);
    return code;
}

static void die(int signal) {
    (void)signal;
    raise(SIGKILL);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    const char *what = argv[1];
    int survivors, pair, code = FMPL_SUCCESS;
    start(4);
    int victim = atoi(argv[2]) % size;
    int midway = strcmp(argv[argc - 1], "midway") == 0;
    if (argc > 3 && strcmp(argv[3], "software") == 0)
        OK(fmpl_collectives_set(FMPL_COLLECTIVES_SOFTWARE, &ier));
    OK(fmpl_comm_create(&survivors, me != victim, &ier));
    /* The dead and one other, if there are more. */
    OK(fmpl_comm_create(&pair, me == victim || me == (victim + 1) % size, &ier));
    for (int i = 0; i < ROUNDS; i++)
        CHECK(once(what, FMPL_COMM_WORLD, size, 1) == FMPL_SUCCESS);
    if (me == victim && midway) {
        struct itimerval soon = {.it_value = {0, 2000 + getpid() % 10000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;)
            CHECK(once(what, FMPL_COMM_WORLD, size, 0) == FMPL_SUCCESS);
    }
    if (me == victim) {
        sleep_ms(50);
        raise(SIGKILL);
    }
    /* Whoever only sends may be through many of them before it hears of it. */
    for (int i = 0; (i < MOST || midway) && code == FMPL_SUCCESS; i++) {
        code = once(what, FMPL_COMM_WORLD, size, 0);
        if (i >= ROUNDS && !midway)
            sleep_ms(1);
    }
    CHECK(code == FMPL_ERR_PEER);
    CHECK(once(what, FMPL_COMM_WORLD, size, 0) == FMPL_ERR_PEER);
    GIVES(FMPL_ERR_PEER, fmpl_barrier(FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_PEER, fmpl_bcast(data, 8, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_PEER, fmpl_allreduce(data, 1, fmpl_dsum, FMPL_COMM_WORLD, work, &ier));
    GIVES(FMPL_ERR_PEER, fmpl_comm_create(&code, 1, &ier));
    /* Nobody is still inside one: those that are left meet here. */
    for (int i = 0; i < 5; i++) {
        double sum = 1;
        OK(fmpl_allreduce(&sum, 1, fmpl_dsum, survivors, work, &ier));
        CHECK(sum == size - 1);
        if (strcmp(what, "create") != 0)
            CHECK(once(what, survivors, size - 1, 1) == FMPL_SUCCESS);
    }
    if (pair != FMPL_COMM_NULL)
        OK(fmpl_comm_free(&pair, &ier));
    CHECK(pair == FMPL_COMM_NULL);
    OK(fmpl_comm_free(&survivors, &ier));
    if (me == (victim == 0))
        printf("ok lost\n");
    fflush(stdout);
    OK(fmpl_finalize(&ier));
    return 0;
}
