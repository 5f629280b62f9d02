/* One way between two processes over a plain TCP socket, in microseconds, for each size named, as
 * pingpong.c prints it:
 *
 *     raw serve ADDRESS PORT SIZE...      raw call ADDRESS PORT SIZE...
 *
 * It waits as the fabric does: it tries for a while, giving up the processor between tries, then sleeps
 * in poll.  `call` prints.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 15, TRIES = 160 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void put(int s, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = send(s, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno == EAGAIN) {
            struct pollfd f = {.fd = s, .events = POLLOUT};
            poll(&f, 1, -1);
        } else if (k < 0) {
            die("send");
        } else {
            p += k;
            n -= (size_t)k;
        }
    }
}

static void get(int s, char *p, size_t n)
{
    int tries = 0;
    while (n > 0) {
        ssize_t k = recv(s, p, n, MSG_DONTWAIT);
        if (k < 0 && errno == EAGAIN) {
            if (tries++ < TRIES) {
                sched_yield();
            } else {
                struct pollfd f = {.fd = s, .events = POLLIN};
                poll(&f, 1, -1);
                tries = 0;
            }
        } else if (k <= 0) {
            die("recv");
        } else {
            tries = 0;
            p += k;
            n -= (size_t)k;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int serve = strcmp(argv[1], "serve") == 0, one = 1, s = -1;
    struct addrinfo *to, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (getaddrinfo(argv[2], argv[3], &hints, &to) != 0)
        return 2;
    if (serve) {
        int l = socket(to->ai_family, SOCK_STREAM, 0);
        setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(l, to->ai_addr, to->ai_addrlen) != 0 || listen(l, 1) != 0)
            die("listen");
        s = accept(l, NULL, NULL);
    } else {
        for (int i = 0; i < 200 && s < 0; i++) {
            s = socket(to->ai_family, SOCK_STREAM, 0);
            if (connect(s, to->ai_addr, to->ai_addrlen) != 0) {
                close(s);
                s = -1;
                usleep(20000);
            }
        }
    }
    if (s < 0)
        die("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int a = 4; a < argc; a++) {
        size_t n = (size_t)atol(argv[a]);
        int rounds = n > 100000 ? 60 : 600;
        char *buffer = calloc(1, n ? n : 1);
        double block[BLOCKS];
        for (int b = -1; b < BLOCKS; b++) {
            double start = now();
            for (int i = 0; i < rounds; i++) {
                if (serve) {
                    get(s, buffer, n);
                    put(s, buffer, n);
                } else {
                    put(s, buffer, n);
                    get(s, buffer, n);
                }
            }
            if (b >= 0)
                block[b] = (now() - start) / rounds / 2 * 1e6;
        }
        qsort(block, BLOCKS, sizeof block[0], by_value);
        if (!serve)
            printf("%zu %.3f\n", n, block[BLOCKS / 2]);
        free(buffer);
    }
    return 0;
}
