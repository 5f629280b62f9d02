/* What the tests of CAD share. */
#include <cad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

/* The executor is the one that was asked for, and it has run something, if there was anything. */
static inline void check_executor(int argc, char **argv)
{
    const char *name;
    uint64_t nodes, in_calls;
    CHECK(cad_executor(&name, &nodes, &in_calls) == 0 && cad_executor(NULL, NULL, NULL) == 0);
    CHECK(argc == 2 && strcmp(name, argv[1]) == 0);
    CHECK((nodes > 0 || size == 1) && in_calls <= nodes);
}

/* Until the first `count` processes have come: a barrier by dissemination. */
static inline void barrier(uint32_t channel, int count)
{
    int members[64], send = CAD_START, recv = CAD_START;
    cad_t cad;
    CHECK(count <= 64 && rank < count);
    for (int i = 0; i < count; i++)
        members[i] = i;
    CHECK(cad_init(&cad, channel, members, count) == 0);
    for (int distance = 1; distance < count; distance *= 2) {
        int before[2] = {send, recv};
        recv = cad_make_recv_node(cad, NULL, 0, (rank + count - distance) % count);
        send = cad_make_send_node(cad, NULL, 0, (rank + distance) % count);
        CHECK(recv >= 0 && send >= 0);
        for (int i = 0; i < 2; i++)
            CHECK(cad_connect_node(cad, before[i], send) == 0);
    }
    CHECK(cad_issue(cad) == 0 && cad_wait(cad) == CAD_DONE && cad_free(&cad) == 0);
}
