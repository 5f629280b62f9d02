/* Per cent of overlap, as IMB-NBC computes it, where nothing runs for a process while it computes but the
 * kernel's receive path and what stands for the link: plain TCP sockets whose buffers hold whole messages.
 * So it is what is left to a library on this machine.
 *
 *     undisturbed serve ADDRESS PORT SIZE...      undisturbed call ADDRESS PORT SIZE...
 *
 * `serve` prints a line for each size: the size, the figure of a message that comes while both compute, and that of
 * messages in both directions.  It takes the privilege to have buffers of any size.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Bytes of messages in a series, which has so many at most, and so many more in front that are not counted. */
enum { SERIES = 40 << 20, MOST = 300, WARM = 2, BUFFER = 16 << 20 };

struct times {
    double computing, overlapped;
};

static int s;
static volatile uint64_t seed = 88172645463325252u;

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

static void compute(long n)
{
    uint64_t z = seed;
    for (; n > 0; n--) {
        z ^= z << 13;
        z ^= z >> 7;
        z ^= z << 17;
    }
    seed = z;
}

/* Seconds that a unit of computing takes when nothing disturbs. */
static double unit(void)
{
    const long n = 1000000;
    double best = 1;
    for (int i = 0; i < 20; i++) {
        double from = now();
        compute(n);
        double time = now() - from;
        best = time < best ? time : best;
    }
    return best / n;
}

static void put(const void *p, size_t n)
{
    if (send(s, p, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("send");
}

static void get(void *p, size_t n)
{
    if (recv(s, p, n, MSG_WAITALL) != (ssize_t)n)
        die("recv");
}

static void meet(void)
{
    char c = 0;
    put(&c, 1);
    get(&c, 1);
}

/* Messages one after the other, each with so much computing. */
static struct times series(char *out, char *in, size_t size, long amount)
{
    struct times t = {0};
    int n = SERIES / (int)size;
    n = n > MOST ? MOST : n;
    for (int i = -WARM; i < n; i++) {
        meet();
        double begin = now();
        if (out)
            put(out, size);
        double from = now();
        compute(amount);
        double to = now();
        if (in)
            get(in, size);
        if (i < 0)
            continue;
        t.computing += (to - from) / n;
        t.overlapped += (now() - begin) / n;
    }
    return t;
}

/* Per cent. */
static double overlap(char *out, char *in, size_t size, double unit)
{
    double pure = series(out, in, size, 0).overlapped, other = 0;
    put(&pure, sizeof pure);
    get(&other, sizeof other);
    double most = pure > other ? pure : other;
    struct times t = series(out, in, size, (long)(most / unit));
    double shared = pure + t.computing - t.overlapped;
    return 100 * shared / (pure > t.computing ? pure : t.computing);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int serves = strcmp(argv[1], "serve") == 0, one = 1, buffer = BUFFER;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    if (!inet_aton(argv[2], &at.sin_addr))
        return 2;
    for (int tries = 0;; tries++) {
        s = socket(AF_INET, SOCK_STREAM, 0);
        if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) ||
            setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer))
            die("socket");
        if (serves) {
            int listener = s;
            setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
            if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1))
                die("listen");
            s = accept(listener, NULL, NULL);
            close(listener);
            if (s < 0)
                die("accept");
            break;
        }
        if (connect(s, (void *)&at, sizeof at) == 0)
            break;
        if (tries == 100)
            die("connect");
        close(s);
        usleep(100000);
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    double each = unit();
    for (int i = 4; i < argc; i++) {
        size_t size = strtoul(argv[i], NULL, 10);
        char *out = malloc(size), *in = malloc(size);
        if (!out || !in || size == 0 || size > BUFFER / 2)
            return 2;
        memset(out, 1, size);
        memset(in, 1, size);
        double comes = overlap(serves ? NULL : out, serves ? in : NULL, size, each);
        double both = overlap(out, in, size, each);
        if (serves)
            printf("%zu %.2f %.2f\n", size, comes, both);
        fflush(stdout);
        free(out);
        free(in);
    }
    return 0;
}
