/* The last process is killed in the middle of a broadcast along the line (mpiexec -disable-auto-cleanup): the others'
 * parts end and say so, and what doesn't need it works. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { BYTES = 8 << 20 };

static cad_t line(uint32_t channel, unsigned char *data, int last)
{
    int members[64], before = CAD_START;
    CHECK(last < 64);
    for (int i = 0; i <= last; i++)
        members[i] = i;
    cad_t cad;
    CHECK(cad_init(&cad, channel, members, last + 1) == 0);
    if (rank > 0) {
        before = cad_make_recv_node(cad, data, BYTES, rank - 1);
        CHECK(before >= 0);
    }
    if (rank < last) {
        int send = cad_make_send_node(cad, data, BYTES, rank + 1);
        CHECK(send >= 0 && cad_connect_node(cad, before, send) == 0);
    }
    return cad;
}

/* Tells the last process that the caller is ready for its death, or waits for all to be. */
static void ready(int last)
{
    cad_t cad;
    CHECK(cad_init(&cad, 3, NULL, 0) == 0);
    if (rank < last)
        CHECK(cad_make_send_node(cad, NULL, 0, last) >= 0);
    for (int i = 0; rank == last && i < last; i++)
        CHECK(cad_make_recv_node(cad, NULL, 0, i) >= 0);
    CHECK(cad_issue(cad) == 0 && cad_wait(cad) == CAD_DONE && cad_free(&cad) == 0);
}

int main(int argc, char **argv)
{
    CHECK(cad_start(&rank, &size) == 0);
    unsigned char *data = malloc(BYTES);
    CHECK(data != NULL && size > 1);
    memset(data, rank + 1, BYTES);
    int last = size - 1;
    cad_t all = line(0, data, last), again = line(1, data, last), few = line(2, data, last - 1);
    CHECK(cad_issue(all) == 0 && cad_wait(all) == CAD_DONE && data[BYTES - 1] == 1);
    ready(last);
    if (rank == last) {
        /* It begins to receive, and is gone. */
        CHECK(cad_issue(all) == 0);
        kill(getpid(), SIGKILL);
    }
    if (rank == 0)
        usleep(100000);
    cad_t two[] = {all, again};
    for (int i = 0; i < 2; i++) {
        CHECK(cad_issue(two[i]) == 0);
        int state = cad_wait(two[i]);
        /* Whose neighbour lives may have done its part before anybody hears of the death. */
        CHECK(state == CAD_LOST || (rank + 1 < last && state == CAD_DONE));
    }
    if (rank < last) {
        memset(data, rank + 1, BYTES);
        CHECK(cad_issue(few) == 0 && cad_wait(few) == CAD_DONE);
        CHECK(data[0] == 1 && data[BYTES - 1] == 1);
        /* Whoever leaves early is lost to the others. */
        barrier(4, last);
    }
    check_executor(argc, argv);
    CHECK(cad_free(&all) == 0 && cad_free(&again) == 0 && cad_free(&few) == 0);
    CHECK(cad_finish() == 0);
    if (rank == 0)
        puts("ok lost");
    return 0;
}
