/* The executor in the kernel: a broadcast along a line of processes, whose inner ones only compute meanwhile. They make
 * no call of the library and no system call (one would end the process), and no thread does it for them. */
#include "check.h"
#include <dirent.h>
#include <sys/prctl.h>

enum { CHUNK = 64 << 10, CHUNKS = 24, ROUNDS = 20 };

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

static unsigned char data[CHUNKS * CHUNK];
static volatile char forbidden; /* while 1, each system call of this thread is SIGSYS */
static double sink;

static int threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *one; (one = readdir(tasks)) != NULL;)
        n += one->d_name[0] != '.';
    closedir(tasks);
    return n;
}

static cad_t line(void)
{
    cad_t cad;
    CHECK(cad_init(&cad, 3, NULL, 0) == 0);
    for (int i = 0; i < CHUNKS; i++) {
        void *chunk = data + i * CHUNK;
        int before = CAD_START;
        if (rank > 0) {
            before = cad_make_recv_node(cad, chunk, CHUNK, rank - 1);
            CHECK(before >= 0);
        }
        if (rank + 1 < size) {
            int send = cad_make_send_node(cad, chunk, CHUNK, rank + 1);
            CHECK(send >= 0 && cad_connect_node(cad, before, send) == 0);
        }
    }
    return cad;
}

static void compute(cad_t cad)
{
    double x = rank;
    forbidden = 1;
    while (cad_query(cad) == CAD_PENDING)
        for (int i = 0; i < 1000; i++)
            x = x * 0.999 + i;
    forbidden = 0;
    sink += x;
}

int main(int argc, char **argv)
{
    CHECK(cad_start(&rank, &size) == 0);
    /* Older kernels can't forbid; the rest of the test stands. */
    int guarded = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &forbidden) == 0;
    int inner = rank > 0 && rank + 1 < size, before = threads();
    cad_t cad = line();
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0)
            memset(data, round + 1, sizeof data);
        /* In every other round the first process begins last, when the others compute already. */
        int late = rank == 0 && round % 2 == 0;
        if (late)
            barrier(4, size);
        CHECK(cad_issue(cad) == 0);
        if (!late)
            barrier(4, size);
        if (inner) {
            CHECK(cad_test(cad) >= 0);
            compute(cad);
        }
        CHECK(cad_wait(cad) == CAD_DONE);
        for (size_t i = 0; i < sizeof data; i += 499)
            CHECK(data[i] == round + 1);
        barrier(4, size);
    }
    CHECK(threads() == before);
    CHECK(cad_free(&cad) == 0);
    check_executor(argc, argv);
    CHECK(cad_finish() == 0);
    if (rank == 0)
        printf("ok relay, system calls %s\n", guarded ? "forbidden" : "not watched");
    return 0;
}
