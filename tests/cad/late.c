/* The executor in the kernel: programs that only query, where others begin much later: what could not begin when it was issued (its
 * connections are the other's to make, or more than two are under way on its channel) does without another call. */
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 3, UNDER_WAY = 5, BYTES = 100000, LATE_US = 30000, LIMIT_S = 20 };

static unsigned char mine[UNDER_WAY][BYTES], theirs[UNDER_WAY][64][BYTES];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* From each to each. */
static cad_t exchange(uint32_t channel, int which)
{
    cad_t cad;
    CHECK(cad_init(&cad, channel, NULL, 0) == 0);
    memset(mine[which], 1 + rank + which, BYTES);
    for (int peer = 0; peer < size; peer++)
        if (peer != rank) {
            CHECK(cad_make_send_node(cad, mine[which], BYTES, peer) >= 0);
            CHECK(cad_make_recv_node(cad, theirs[which][peer], BYTES, peer) >= 0);
        }
    return cad;
}

static void only_query(cad_t cad)
{
    double until = now() + LIMIT_S;
    int state;
    while ((state = cad_query(cad)) == CAD_PENDING)
        CHECK(now() < until);
    CHECK(state == CAD_DONE);
}

int main(int argc, char **argv)
{
    CHECK(cad_start(&rank, &size) == 0 && size <= 64);
    for (uint32_t channel = 0; channel < CHANNELS; channel++) {
        cad_t cads[UNDER_WAY];
        /* The lowest, who makes the connections, comes last; on the second channel first. */
        usleep((useconds_t)(channel % 2 ? rank : size - 1 - rank) * LATE_US);
        for (int i = 0; i < UNDER_WAY; i++) {
            cads[i] = exchange(channel, i);
            CHECK(cad_issue(cads[i]) == 0);
        }
        for (int i = 0; i < UNDER_WAY; i++) {
            only_query(cads[i]);
            for (int peer = 0; peer < size; peer++)
                CHECK(peer == rank || theirs[i][peer][BYTES - 1] == 1 + peer + i);
            CHECK(cad_free(&cads[i]) == 0);
        }
    }
    check_executor(argc, argv);
    CHECK(cad_finish() == 0);
    if (rank == 0)
        printf("ok late\n");
    return 0;
}
