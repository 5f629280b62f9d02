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

/* Until all have come: a barrier by dissemination. */
static inline void barrier(uint32_t channel)
{
    cad_t cad;
    CHECK(cad_init(&cad, channel, NULL, 0) == 0);
    int send = CAD_START, recv = CAD_START;
    for (int distance = 1; distance < size; distance *= 2) {
        int before[2] = {send, recv};
        recv = cad_make_recv_node(cad, NULL, 0, (rank + size - distance) % size);
        send = cad_make_send_node(cad, NULL, 0, (rank + distance) % size);
        CHECK(recv >= 0 && send >= 0);
        for (int i = 0; i < 2; i++)
            CHECK(cad_connect_node(cad, before[i], send) == 0);
    }
    CHECK(cad_issue(cad) == 0 && cad_wait(cad) == CAD_DONE && cad_free(&cad) == 0);
}
