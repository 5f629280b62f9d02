/* KACC's chain without a library: what the links can do. MPI is for finding each other and for meeting between samples; what
 * is measured goes through the system's sockets (TCP) alone. By bytes; HOW:
 *
 *   relayed  through the middle rank, which does nothing else: it sends on what has come, as it comes
 *   direct   from the root to the leaf, over no link twice */
#define _GNU_SOURCE
#include "bench_mpi.h"
#include "kacc.h"

#include "kacc_chain.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that a relay takes at most before it sends them on. */
enum { PIECE = 64 << 10 };

static char *data;
static size_t bytes;
static int direct, number;
/* Where data come from and go to; -1 at the chain's ends. */
static int from = -1, to = -1;

static void kacc_fail(const char *why) {
    bench_fail(why);
}

static void kacc_tell(const void *mine, size_t size, void *all) {
    MPI_Allgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, BENCH_WORLD);
}

/* The address under which other hosts reach this one, if it has such a one. */
static struct in_addr own_address(void) {
    struct in_addr found = {htonl(INADDR_LOOPBACK)};
    struct ifaddrs *all;
    if (getifaddrs(&all))
        kacc_fail("this host's addresses are not to be had");
    for (struct ifaddrs *one = all; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && one->ifa_flags & IFF_UP &&
            !(one->ifa_flags & IFF_LOOPBACK)) {
            found = ((struct sockaddr_in *)one->ifa_addr)->sin_addr;
            break;
        }
    freeifaddrs(all);
    return found;
}

/* The rank that this one sends to; none: -1. */
static int next_rank(int rank) {
    int next = rank + (direct ? LEAF - ROOT : 1);
    return direct && rank == RELAY ? -1 : next < CHAIN ? next : -1;
}

/* Connects the ranks: each sends to the next one. */
static void connect_all(void) {
    struct sockaddr_in mine = {.sin_family = AF_INET}, all[CHAIN];
    socklen_t length = sizeof mine;
    int listening = socket(AF_INET, SOCK_STREAM, 0), next = next_rank(kacc_rank), one = 1;
    if (listening < 0 || bind(listening, (struct sockaddr *)&mine, sizeof mine) || listen(listening, 1) ||
        getsockname(listening, (struct sockaddr *)&mine, &length))
        kacc_fail("a socket that listens is not to be had");
    mine.sin_addr = own_address();
    kacc_tell(&mine, sizeof mine, all);
    if (next >= 0) {
        to = socket(AF_INET, SOCK_STREAM, 0);
        if (to < 0 || connect(to, (struct sockaddr *)&all[next], sizeof all[next]) ||
            setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
            kacc_fail("the next rank is not reached");
    }
    for (int rank = 0; rank < CHAIN; rank++)
        if (next_rank(rank) == kacc_rank && (from = accept(listening, NULL, NULL)) < 0)
            kacc_fail("the rank before does not come");
    close(listening);
}

/* Takes at most `most` bytes; how many. */
static size_t take(char *where, size_t most) {
    ssize_t taken = recv(from, where, most, 0);
    if (taken <= 0)
        kacc_fail("the rank before is gone");
    return (size_t)taken;
}

static void give(const char *what, size_t size) {
    while (size > 0) {
        ssize_t given = send(to, what, size, 0);
        if (given <= 0)
            kacc_fail("the next rank is gone");
        what += given;
        size -= (size_t)given;
    }
}

/* Another first and last byte each time, from the root. */
static void operation_prepare(void) {
    number = (number + 1) % 100;
    data[0] = data[bytes - 1] = (char)(kacc_rank == ROOT ? number : -1);
}

static void operation_check(void) {
    if (from >= 0 && (data[0] != number || data[bytes - 1] != number))
        kacc_fail("wrong data");
}

/* All of it, at once: nobody computes here meanwhile. */
static void operation_begin(void) {
    size_t at = 0;
    if (from < 0 && to >= 0)
        give(data, bytes);
    while (from >= 0 && at < bytes) {
        size_t taken = take(data + at, bytes - at < PIECE ? bytes - at : PIECE);
        if (to >= 0)
            give(data + at, taken);
        at += taken;
    }
}

static int operation_test(void) {
    return 1;
}

static void operation_wait(void) {
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv, CHAIN);
    kacc_rank = bench_rank;
    kacc_ranks = bench_ranks;
    kacc_what();
    product_of(bench.what);
    direct = !strcmp(bench.how, "direct");
    if (!bench_is("chain") || (!direct && strcmp(bench.how, "relayed")))
        bench_fail("no such measurement");
    chain_begin();
    connect_all();
    for (int i = 0; i < bench.count; i++) {
        bytes = bench_value(i);
        data = bench_memory(bytes);
        bench_figure(i, chain_figure(0));
        free(data);
    }
    bench_finish();
    return 0;
}
