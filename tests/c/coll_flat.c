/* Broadcasts of few ranks that copy long data from where the root has them (YAMABIKO_COPY=direct), of lengths around that from which they do, from every root, where ranks with an odd
 * number have gaps between their elements: one rank in turn, the root too, calls nothing until all others have theirs.
 */
#include "coll.h"
#include <errno.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

/* Shorter ones go through shared memory; and from LENT on it doesn't matter what was measured. */
enum { FLAT = (128 << 10) / sizeof(int), LENT = (256 << 10) / sizeof(int) };
enum { PATIENCE_S = 40 };

/* Whether processes may read each other's memory, as far as filters of system calls and a module of the kernel's have a say. */
static int allowed(void)
{
    int scope = 0, here = 0;
    struct iovec from = {&scope, sizeof scope}, to = {&here, sizeof here};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof here)
        return 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "r");
    if (file == NULL)
        return 1;
    CHECK(fscanf(file, "%d", &scope) == 1);
    fclose(file);
    return scope == 0;
}

/* So many others say that they have theirs. */
static void hear(int others)
{
    sigset_t said;
    const struct timespec patience = {PATIENCE_S, 0};
    sigemptyset(&said);
    sigaddset(&said, SIGRTMIN);
    for (int i = 0, got; i < others; i++) {
        do
            got = sigtimedwait(&said, NULL, &patience);
        while (got < 0 && errno == EINTR);
        SAME(got, SIGRTMIN);
    }
}

/* The root knows that it may lend: what each other has said of that comes before these. */
static void acquainted(int root)
{
    if (t_rank != root)
        OK(MPI_Send(NULL, 0, MPI_BYTE, root, 0, MPI_COMM_WORLD));
    for (int i = 1; t_rank == root && i < t_size; i++)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* A broadcast of n integers; where `silent` is a rank, that one calls nothing until the others have theirs. */
static void broadcast(const World *w, int n, int root, int silent, const int *processes)
{
    Shape s = shape_of(n % 3 == 0 ? MIXED : DENSE, w->rank);
    int *data = ints(room(s, (size_t)n));
    MPI_Request request;
    sequence++;
    if (w->rank == root)
        put(data, s, 0, (size_t)n, root, 0);
    if (sequence % 2)
        OK(MPI_Ibcast(data, units(s, n), s.type, root, w->comm, &request));
    else {
        OK(MPI_Bcast_init(data, units(s, n), s.type, root, w->comm, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
    }
    if (w->rank == silent)
        hear(w->size - 1 - (silent != root));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (request != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&request));
    SEE(w, data, s, 0, (size_t)n, root, 0);
    EDGES(w, data, s, (size_t)n);
    if (silent >= 0 && w->rank != silent && w->rank != root)
        CHECK(sigqueue(processes[silent], SIGRTMIN, (union sigval){0}) == 0);
    free(data);
}

int main(int argc, char **argv)
{
    const int lengths[] = {FLAT - 1, FLAT, FLAT + 1, LENT - 1, LENT, 3 * FLAT, 8 * LENT};
    sigset_t said;
    t_init(&argc, &argv);
    coll_types();
    sigemptyset(&said);
    sigaddset(&said, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &said, NULL) == 0);
    World w = {MPI_COMM_WORLD, t_rank, t_size, "broadcast"};
    int *processes = ints((size_t)t_size), own = (int)getpid();
    OK(MPI_Allgather(&own, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD));
    if (!allowed() && t_rank == 0)
        printf("skipped: coll_flat: whether a rank that calls nothing holds up others, as processes may not read each other's memory here\n");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int root = 0; root < t_size; root++) {
            broadcast(&w, lengths[i], root, -1, processes);
            acquainted(root);
            for (int silent = 0; silent < t_size; silent++)
                if (lengths[i] >= FLAT && t_size > 2 && allowed())
                    broadcast(&w, lengths[i], root, silent, processes);
        }
    OK(MPI_Type_free(&gaps_type));
    free(processes);
    return t_done("coll_flat");
}
