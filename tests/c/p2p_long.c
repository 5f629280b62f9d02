/* Long messages around the lengths at which their way changes, in each way to send and receive them, in a ring of ranks: several at once in both
 * directions, late receives, short receives, receives and sends with gaps, probed, cancelled and persistent ones, and to oneself.
 *
 * Argument "refused": the system does not let odd ranks read or write others' memory. "late": nor any rank, from the middle on.
 * "lost": rank 1 is killed in the middle of long messages from and to all others (mpiexec -disable-auto-cleanup).
 */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { ROUNDS = 1500, LONGEST = 900000, VICTIM = 1, BIG = 4 << 20, MANY = 4 };

static uint32_t state = 12345;
static int right, left;
static MPI_Comm comm;
static unsigned char *out[MANY], *in[MANY];

/* The same at all ranks. */
static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * below) >> 32);
}

static int length(void)
{
    static const int lengths[] = {4096, 16384, 32768, 65536, 131072, 262144, 524288};
    if (draw(4) == 0)
        return (int)draw(LONGEST);
    return lengths[draw(7)] + (int)draw(3) - 1;
}

/* process_vm_readv and process_vm_writev fail with EPERM from now on. */
static void refuse(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void clear(int i)
{
    memset(in[i], 0x5A, LONGEST + 64);
}

/* Several in both directions, with receives posted before, after, or from anybody; standard and synchronous. */
static void several(unsigned round)
{
    MPI_Request r[4 * MANY];
    MPI_Status s[4 * MANY];
    int bytes[MANY], got, late = (int)draw(3), synchronous = (int)draw(2), any = (int)draw(2);
    for (int i = 0; i < MANY; i++) {
        bytes[i] = length();
        clear(i);
        t_fill(out[i], T_PLAIN, (size_t)bytes[i], (unsigned)t_rank, round + (unsigned)i);
    }
    /* Half of them go to the left. */
    for (int turn = 0; turn < 2; turn++) {
        if (turn == (late > 0)) {
            if (late == 2 && t_rank % 2)
                t_sleep_ms(1);
            for (int i = 0; i < MANY; i++)
                OK(MPI_Irecv(in[i], LONGEST, MPI_BYTE, any ? MPI_ANY_SOURCE : i % 2 ? right : left, (int)round + i, comm, &r[i]));
        } else {
            for (int i = 0; i < MANY; i++) {
                int to = i % 2 ? left : right;
                if (synchronous)
                    OK(MPI_Issend(out[i], bytes[i], MPI_BYTE, to, (int)round + i, comm, &r[MANY + i]));
                else
                    OK(MPI_Isend(out[i], bytes[i], MPI_BYTE, to, (int)round + i, comm, &r[MANY + i]));
            }
        }
    }
    OK(MPI_Waitall(2 * MANY, r, s));
    for (int i = 0; i < MANY; i++) {
        SAME(s[i].MPI_SOURCE, i % 2 ? right : left);
        OK(MPI_Get_count(&s[i], MPI_BYTE, &got));
        SAME(got, bytes[i]);
        VERIFY(in[i], T_PLAIN, (size_t)bytes[i], (unsigned)s[i].MPI_SOURCE, round + (unsigned)i);
    }
}

static void both(unsigned round)
{
    int bytes = length();
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    OK(MPI_Sendrecv(out[0], bytes, MPI_BYTE, right, (int)round, in[0], LONGEST, MPI_BYTE, left, (int)round, comm, MPI_STATUS_IGNORE));
    VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)left, round);
    memcpy(in[1], out[0], (size_t)bytes);
    memset(in[1] + bytes, 0x5A, 1);
    OK(MPI_Sendrecv_replace(in[1], bytes, MPI_BYTE, left, (int)round + 1, right, (int)round + 1, comm, MPI_STATUS_IGNORE));
    VERIFY(in[1], T_PLAIN, (size_t)bytes, (unsigned)right, round);
}

/* Blocking: whoever is first in the ring sends first. What is short enough need not be received for its send to end. */
static void blocking(unsigned round)
{
    int bytes = length();
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    if (t_rank > 0 || t_size == 1) {
        MPI_Request r;
        OK(MPI_Irecv(in[0], LONGEST, MPI_BYTE, left, (int)round, comm, &r));
        OK(MPI_Send(out[0], bytes, MPI_BYTE, right, (int)round, comm));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Ssend(out[0], bytes, MPI_BYTE, right, (int)round, comm));
        OK(MPI_Recv(in[0], LONGEST, MPI_BYTE, left, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
    }
    VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)left, round);
}

static void probed(unsigned round)
{
    int bytes = length(), got;
    MPI_Request r[2];
    MPI_Message message;
    MPI_Status s;
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    OK(MPI_Isend(out[0], bytes, MPI_BYTE, right, (int)round, comm, &r[0]));
    OK(MPI_Mprobe(draw(2) ? left : MPI_ANY_SOURCE, (int)round, comm, &message, &s));
    OK(MPI_Get_count(&s, MPI_BYTE, &got));
    SAME(got, bytes);
    OK(MPI_Imrecv(in[0], bytes, MPI_BYTE, &message, &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)left, round);
}

static void truncated(unsigned round)
{
    int bytes = length() + 1, room = (int)draw((uint32_t)bytes), late = (int)draw(2);
    MPI_Request r[2];
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == late)
            OK(MPI_Irecv(in[0], room, MPI_BYTE, left, (int)round, comm, &r[1]));
        else
            OK(MPI_Isend(out[0], bytes, MPI_BYTE, right, (int)round, comm, &r[0]));
    }
    FAILS(MPI_Wait(&r[1], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    CHECK(in[0][room] == 0x5A);
}

static void gaps(unsigned round)
{
    size_t bytes = (size_t)length() / 3;
    int from = (int)draw(T_LAYOUTS), to = (int)draw(T_LAYOUTS), counts[2];
    MPI_Datatype types[2] = {t_type(from, bytes, &counts[0]), t_type(to, bytes, &counts[1])};
    MPI_Request r;
    clear(0);
    t_fill(out[0], from, bytes, (unsigned)t_rank, round);
    OK(MPI_Isend(out[0], counts[0], types[0], right, (int)round, comm, &r));
    OK(MPI_Recv(in[0], counts[1], types[1], left, (int)round, comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    VERIFY(in[0], to, bytes, (unsigned)left, round);
    OK(MPI_Type_free(&types[0]));
    OK(MPI_Type_free(&types[1]));
}

static void persistent(unsigned round)
{
    int bytes = length();
    MPI_Request r[2];
    OK(MPI_Send_init(out[0], bytes, MPI_BYTE, right, (int)round, comm, &r[0]));
    OK(MPI_Recv_init(in[0], LONGEST, MPI_BYTE, left, (int)round, comm, &r[1]));
    for (unsigned i = 0; i < 4; i++) {
        clear(0);
        t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round + i);
        OK(MPI_Startall(2, r));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)left, round + i);
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

/* A cancelled message is never received, another always is. */
static void cancelled(unsigned round)
{
    int bytes = length(), was, theirs;
    MPI_Request r;
    MPI_Status s;
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    OK(MPI_Isend(out[0], bytes, MPI_BYTE, right, (int)round, comm, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &s));
    OK(MPI_Test_cancelled(&s, &was));
    OK(MPI_Sendrecv(&was, 1, MPI_INT, right, 2, &theirs, 1, MPI_INT, left, 2, comm, MPI_STATUS_IGNORE));
    if (!theirs) {
        OK(MPI_Recv(in[0], LONGEST, MPI_BYTE, left, (int)round, comm, MPI_STATUS_IGNORE));
        VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)left, round);
    }
}

static void buffered(unsigned round)
{
    int bytes = length(), size = bytes + MPI_BSEND_OVERHEAD;
    unsigned char *space = t_alloc((size_t)size);
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    OK(MPI_Buffer_attach(space, size));
    OK(MPI_Bsend(out[0], bytes, MPI_BYTE, right, (int)round, comm));
    memset(out[0], 0xEE, (size_t)bytes);
    OK(MPI_Recv(in[0], LONGEST, MPI_BYTE, left, (int)round, comm, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&space, &size));
    free(space);
    VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)left, round);
}

static void own(unsigned round)
{
    int bytes = length();
    MPI_Request r;
    clear(0);
    t_fill(out[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
    OK(MPI_Isend(out[0], bytes, MPI_BYTE, t_rank, 1, comm, &r));
    OK(MPI_Recv(in[0], LONGEST, MPI_BYTE, t_rank, 1, comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    VERIFY(in[0], T_PLAIN, (size_t)bytes, (unsigned)t_rank, round);
}

/* Long messages from and to the victim, until it is gone. It goes at any moment of them. */
static void lose(void)
{
    unsigned char *there = t_alloc(BIG), *back = t_alloc(BIG);
    MPI_Comm survivors;
    int me, n, failed = 0, peers = t_rank == VICTIM ? t_size - 1 : 1;
    memset(there, 1 + t_rank, BIG);
    OK(MPI_Comm_split(comm, t_rank == VICTIM, t_rank, &survivors));
    OK(MPI_Barrier(comm));
    if (t_rank == VICTIM) {
        struct itimerval soon = {{0, 0}, {0, 50000 + (int)(1e6 * t_seconds()) % 5000}};
        signal(SIGALRM, SIG_DFL);
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    }
    for (int i = 0; !failed; i++) {
        MPI_Request r[16];
        MPI_Status s[16];
        CHECK(2 * peers <= 16);
        for (int p = 0; p < peers; p++) {
            int peer = t_rank == VICTIM ? p + (p >= VICTIM) : VICTIM;
            OK(MPI_Irecv(t_rank == VICTIM && p ? in[p % MANY] : back, t_rank == VICTIM && p ? LONGEST : BIG, MPI_BYTE, peer, 1,
                         comm, &r[2 * p]));
            OK(MPI_Isend(there, t_rank == VICTIM ? BIG : t_rank ? LONGEST : BIG, MPI_BYTE, peer, 1, comm, &r[2 * p + 1]));
        }
        for (int k = 0; k < 2 * peers; k++) {
            int code = MPI_Wait(&r[k], &s[k]);
            if (code == MPI_SUCCESS)
                continue;
            FAILS(code, MPI_ERR_PROC_ABORTED);
            failed = 1;
        }
    }
    FAILS(MPI_Send(there, BIG, MPI_BYTE, VICTIM, 1, comm), MPI_ERR_PROC_ABORTED);
    FAILS(MPI_Recv(back, BIG, MPI_BYTE, VICTIM, 1, comm, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    OK(MPI_Comm_rank(survivors, &me));
    OK(MPI_Comm_size(survivors, &n));
    for (int i = 0; i < 20; i++) {
        OK(MPI_Sendrecv(there, BIG, MPI_BYTE, (me + 1) % n, 1, back, BIG, MPI_BYTE, (me + n - 1) % n, 1, survivors,
                        MPI_STATUS_IGNORE));
        int before = (me + n - 1) % n;
        SAME(back[BIG - 1], 1 + before + (before >= VICTIM));
    }
    OK(MPI_Barrier(survivors));
    if (me == 0)
        printf("ok p2p_long\n"), fflush(stdout);
    OK(MPI_Finalize());
}

int main(int argc, char **argv)
{
    static void (*const ways[])(unsigned) = {several, both,      blocking,  probed, truncated, gaps,
                                             several, persistent, cancelled, own,    buffered};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    const char *how = argc > 1 ? argv[1] : "";
    const char *rank = getenv("PMI_RANK");
    if (!strcmp(how, "refused") && rank && atoi(rank) % 2)
        refuse();
    t_init(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    right = (t_rank + 1) % t_size;
    left = (t_rank + t_size - 1) % t_size;
    for (int i = 0; i < MANY; i++) {
        out[i] = t_alloc(3 * LONGEST + 64);
        in[i] = t_alloc(3 * LONGEST + 64);
    }
    if (!strcmp(how, "lost")) {
        lose();
        return 0;
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        ways[draw(WAYS)](round * 8);
        /* Some are in the middle of something then, and others not. */
        if (!strcmp(how, "late") && round == ROUNDS / 2 + (unsigned)t_rank)
            refuse();
    }
    OK(MPI_Comm_free(&comm));
    for (int i = 0; i < MANY; i++) {
        free(out[i]);
        free(in[i]);
    }
    return t_done("p2p_long");
}
