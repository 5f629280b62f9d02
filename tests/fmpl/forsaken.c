/* All others die.  Who receives from anybody gets what they sent before, then hears that nothing more can come; sends to
 * them that wait, and what was spooled for them, don't hold up the end.
 *
 * To be run with mpiexec -disable-auto-cleanup.
 */
#include "check.h"
#include <signal.h>

int main(void) {
    static char large[100000];
    int from, index, none, left, waiting;
    size_t bytes;
    start(4);
    meet();
    /* Short messages, which go a way of their own from the second on; the last receives are for what never comes. */
    static double in[64], out[64];
    for (int i = 0; i < 5; i++) {
        for (int p = 1; me == 0 && p < size; p++)
            OK(fmpl_recv(&in[p], sizeof in[p], p, 1, FMPL_COMM_WORLD, &ier));
        if (me > 0)
            OK(fmpl_send(&out[me], sizeof out[me], 0, 1, FMPL_COMM_WORLD, &ier));
    }
    for (int p = 1; me == 0 && p < size; p++)
        OK(fmpl_irecv(&in[p], sizeof in[p], p, 1, FMPL_COMM_WORLD, &ier));
    meet();
    if (me > 0) {
        fill(large, sizeof large, me);
        OK(fmpl_send_any(large, 1000, 0, me, FMPL_COMM_WORLD, &ier));
        sleep_ms(20 * me);
        raise(SIGKILL);
    }
    OK(fmpl_sendbuf_set(NULL, FMPL_GROWS, 0, &ier));
    for (int p = 1; p < size; p++)
        OK(fmpl_send(large, sizeof large, p, 2, FMPL_COMM_WORLD, &ier));
    sleep_ms(100);
    /* Who does nothing but send hears of it too. */
    for (int p = 1; p < size; p++) {
        int code = FMPL_SUCCESS;
        for (int i = 0; i < 10000 && code == FMPL_SUCCESS; i++) {
            code = fmpl_send(large, 100, p, 3, FMPL_COMM_WORLD, NULL);
            sleep_ms(1);
        }
        CHECK(code == FMPL_ERR_PEER);
    }
    for (int p = 1; p < size; p++)
        GIVES(FMPL_ERR_PEER, fmpl_irecv_wait(p, 1, FMPL_COMM_WORLD, &ier));
    OK(fmpl_sendbuf_check(&left, &waiting, &ier));
    CHECK(left >= size - 1 && waiting == 0);
    for (int p = 1; p < size; p++) {
        OK(fmpl_recv_any_from(large, sizeof large, FMPL_TAG_ANY, FMPL_COMM_WORLD, &from, &bytes, &index, &ier));
        CHECK(bytes == 1000 && index == from && holds(large, bytes, from));
    }
    GIVES(FMPL_ERR_PEER, fmpl_recv_any(large, sizeof large, 7, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_PEER,
          fmpl_recv_any_from(large, 0, FMPL_TAG_ANY, FMPL_COMM_WORLD, &from, &bytes, &index, &ier));
    /* To oneself there is still a way. */
    OK(fmpl_send_any(large, 5, 0, 1, FMPL_COMM_WORLD, &ier));
    OK(fmpl_recv_any_from(large, 10, 1, FMPL_COMM_WORLD, &from, &bytes, &index, &ier));
    CHECK(from == 0 && bytes == 5);
    GIVES(FMPL_ERR_PEER, fmpl_recv(large, 10, 1, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_PEER, fmpl_send_any(large, 10, 1, 0, FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_PEER, fmpl_comm_create(&none, 1, &ier));
    end("forsaken");
    return 0;
}
