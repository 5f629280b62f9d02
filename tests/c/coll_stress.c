/* Two communicators with four non-blocking collectives each under way at once, the communicators in another order on each rank, completed
 * in any order, through small socket buffers: so many collectives as the argument says.
 *
 * Argument "lost": instead, a rank is killed in the middle of a hundred.
 */
#include "check.h"
#include <dirent.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMS = 2, DEPTH = 4, SMALL = 100, LARGE = 20000, HUNDRED = 100, BUFFER = 4096, FDS = 1024 };
enum { BARRIER, BCAST, REDUCE, ALLREDUCE, ALLTOALL, KINDS };

typedef struct {
    int kind, n, root, word, *in, *out;
} Work;

static MPI_Comm comms[COMMS];
static int rank_in[COMMS];
static Work works[COMMS * DEPTH];
static MPI_Request requests[COMMS * DEPTH];

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % below;
}

/* What the rank of MPI_COMM_WORLD has as element i. */
static int datum(int who, int word, int i)
{
    return who * 1000 + word + i % 100;
}

/* Has a connection to another host take little at once. */
static void shrink_tcp(int fd, int domain)
{
    int listens = 1, small = BUFFER;
    socklen_t bytes = sizeof listens;
    if ((domain == AF_INET || domain == AF_INET6) && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && !listens)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

/* This process's Unix sockets: descriptors by inode. Its other sockets are shrunk. */
static int descriptors(unsigned *inodes, int *fds)
{
    DIR *all = opendir("/proc/self/fd");
    int n = 0;
    CHECK(all != NULL);
    for (struct dirent *entry; (entry = readdir(all)) != NULL && n < FDS;) {
        int fd = atoi(entry->d_name), domain;
        socklen_t bytes = sizeof domain;
        struct stat is;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0)
            continue;
        shrink_tcp(fd, domain);
        if (domain != AF_UNIX || fstat(fd, &is) != 0)
            continue;
        fds[n] = fd;
        inodes[n++] = (unsigned)is.st_ino;
    }
    closedir(all);
    return n;
}

static int found(const unsigned *inodes, int n, unsigned inode)
{
    for (int i = 0; i < n; i++)
        if (inodes[i] == inode)
            return i;
    return -1;
}

/* All of them whose other end another process has take little at once. (The library copies through pairs of its own, which hold what
 * they held when they were made.) */
static void shrink(void)
{
    static unsigned inodes[FDS];
    static int fds[FDS];
    static char answer[32768];
    struct {
        struct nlmsghdr head;
        struct unix_diag_req body;
    } ask = {{sizeof ask, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
             {.sdiag_family = AF_UNIX, .udiag_states = ~0u, .udiag_show = UDIAG_SHOW_PEER}};
    int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), n = descriptors(inodes, fds), small = BUFFER;
    if (s < 0 || send(s, &ask, sizeof ask, 0) != sizeof ask) {
        close(s);
        return;
    }
    for (ssize_t bytes; (bytes = recv(s, answer, sizeof answer, 0)) > 0;) {
        int left = (int)bytes;
        for (struct nlmsghdr *h = (struct nlmsghdr *)answer; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
            if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
                close(s);
                return;
            }
            struct unix_diag_msg *is = NLMSG_DATA(h);
            int mine = found(inodes, n, is->udiag_ino), rest = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof *is));
            for (struct rtattr *a = (struct rtattr *)(is + 1); mine >= 0 && RTA_OK(a, rest); a = RTA_NEXT(a, rest))
                if (a->rta_type == UNIX_DIAG_PEER && found(inodes, n, *(unsigned *)RTA_DATA(a)) < 0)
                    setsockopt(fds[mine], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        }
    }
    close(s);
}

/* The rank of MPI_COMM_WORLD that has this rank in a communicator; the second one counts backwards. */
static int world_rank(int comm, int rank)
{
    return comm == 1 ? t_size - 1 - rank : rank;
}

static void begin(int comm, Work *w, MPI_Request *r)
{
    MPI_Comm c = comms[comm];
    for (int i = 0; i < (w->kind == ALLTOALL ? w->n * t_size : w->n); i++)
        w->in[i] = datum(t_rank, w->word, i), w->out[i] = -1;
    switch (w->kind) {
    case BARRIER:
        OK(MPI_Ibarrier(c, r));
        break;
    case BCAST:
        OK(MPI_Ibcast(rank_in[comm] == w->root ? w->in : w->out, w->n, MPI_INT, w->root, c, r));
        break;
    case REDUCE:
        OK(MPI_Ireduce(w->in, w->out, w->n, MPI_INT, MPI_SUM, w->root, c, r));
        break;
    case ALLREDUCE:
        OK(MPI_Iallreduce(w->in, w->out, w->n, MPI_INT, MPI_SUM, c, r));
        break;
    default:
        OK(MPI_Ialltoall(w->in, w->n, MPI_INT, w->out, w->n, MPI_INT, c, r));
    }
}

static void check(int comm, const Work *w)
{
    int sum = t_size * (t_size - 1) / 2 * 1000, me = rank_in[comm];
    for (int i = 0; i < w->n; i++) {
        int all = sum + t_size * (w->word + i % 100);
        if (w->kind == BCAST && me != w->root)
            SAME(w->out[i], datum(world_rank(comm, w->root), w->word, i));
        if (w->kind == ALLREDUCE || (w->kind == REDUCE && me == w->root))
            SAME(w->out[i], all);
        for (int r = 0; w->kind == ALLTOALL && r < t_size; r++)
            SAME(w->out[r * w->n + i], datum(world_rank(comm, r), w->word, me * w->n + i));
    }
}

static void round_of(int round, unsigned *own)
{
    unsigned common = (unsigned)round * 2654435761u;
    int begun[COMMS] = {0}, left = COMMS * DEPTH;
    for (int i = 0; i < COMMS * DEPTH; i++) {
        Work *w = &works[i];
        int large = draw(&common, 6) == 0;
        w->kind = (int)draw(&common, large ? KINDS : ALLTOALL);
        w->n = w->kind == BARRIER ? 0 : 1 + (int)draw(&common, large ? LARGE : SMALL);
        w->root = (int)draw(&common, (unsigned)t_size);
        w->word = (int)draw(&common, 1000);
    }
    while (left > 0) {
        int comm = (int)draw(own, COMMS);
        if (begun[comm] == DEPTH)
            continue;
        int i = comm * DEPTH + begun[comm]++;
        begin(comm, &works[i], &requests[i]);
        left--;
    }
    if (round % 32 == 0)
        shrink();
    for (int i = 0, flag; i < COMMS * DEPTH && draw(own, 2); i++)
        OK(MPI_Test(&requests[draw(own, COMMS * DEPTH)], &flag, MPI_STATUS_IGNORE));
    for (int i; MPI_Waitany(COMMS * DEPTH, requests, &i, MPI_STATUS_IGNORE) == MPI_SUCCESS && i != MPI_UNDEFINED;)
        ;
    for (int i = 0; i < COMMS * DEPTH; i++)
        check(i / DEPTH, &works[i]);
}

static void stress(int collectives)
{
    unsigned own = 77u + (unsigned)t_rank;
    for (int i = 0; i < COMMS * DEPTH; i++) {
        works[i].in = t_alloc((size_t)(LARGE * t_size) * sizeof(int));
        works[i].out = t_alloc((size_t)(LARGE * t_size) * sizeof(int));
    }
    for (int round = 0; round * COMMS * DEPTH < collectives; round++)
        round_of(round, &own);
    for (int i = 0; i < COMMS * DEPTH; i++) {
        free(works[i].in);
        free(works[i].out);
    }
}

/* The last rank begins half of a hundred and is gone. What the others began with it ends, with an error where it did not; what they have
 * without it goes on. */
static int lost(void)
{
    static int in[HUNDRED], out[HUNDRED];
    static MPI_Request r[HUNDRED];
    int victim = t_size - 1, refused = 0, one = 1, n = 0;
    MPI_Comm left;
    OK(MPI_Comm_split(MPI_COMM_WORLD, t_rank == victim, 0, &left));
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN));
    /* What goes on with the default handler is over everywhere before somebody is gone. */
    for (int i = 0; t_rank == victim && i < victim; i++)
        OK(MPI_Recv(&n, 1, MPI_INT, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (t_rank != victim)
        OK(MPI_Send(&one, 1, MPI_INT, victim, 7, MPI_COMM_WORLD));
    for (int i = 0; i < HUNDRED; i++) {
        if (t_rank == victim && i == HUNDRED / 2)
            raise(SIGKILL);
        in[i] = i;
        r[i] = MPI_REQUEST_NULL;
        int code = MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, comms[i % COMMS], &r[i]);
        if (code != MPI_SUCCESS)
            FAILS(code, MPI_ERR_PROC_ABORTED);
        refused += code != MPI_SUCCESS;
    }
    for (int i = 0; i < HUNDRED; i++) {
        int code = MPI_Wait(&r[i], MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            FAILS(code, MPI_ERR_PROC_ABORTED);
        else if (i < HUNDRED - refused)
            SAME(out[i], t_size * i);
        CHECK(code != MPI_SUCCESS || i < HUNDRED / 2 || i >= HUNDRED - refused);
    }
    for (int i = 0; i < HUNDRED; i++) {
        OK(MPI_Iallreduce(&one, &n, 1, MPI_INT, MPI_SUM, left, &r[0]));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        SAME(n, t_size - 1);
    }
    if (t_rank == 0) {
        printf("ok coll_stress\n");
        fflush(stdout);
    }
    OK(MPI_Finalize());
    return 0;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -t_rank, &comms[1]));
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_rank(comms[c], &rank_in[c]));
    if (argc > 1 && strcmp(argv[1], "lost") == 0)
        return lost();
    stress(argc > 1 ? atoi(argv[1]) : 400);
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_free(&comms[c]));
    return t_done("coll_stress");
}
