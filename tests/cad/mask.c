/* Runs a program for which io_uring lacks something, as an older kernel's does: mask WHAT[,WHAT] PROGRAM ARGUMENTS.
 *
 * SEND ...   this opcode: io_uring says that there is none, and an entry with it fails
 * probe      it does not tell which opcodes there are
 * cancel     it can't cancel at once
 *
 * No filter can look into a ring. So the system call that makes rings comes here, as a notification of seccomp's: the ring is made here, restricted to
 * all other opcodes, and given to the process. What it asks a ring about opcodes is answered here, too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPCODES = 256, ASKS = IORING_REGISTER_PROBE, CANCELS = IORING_REGISTER_SYNC_CANCEL };

static const struct {
    const char *name;
    int code;
} names[] = {
    {"NOP", IORING_OP_NOP}, {"READ", IORING_OP_READ}, {"WRITE", IORING_OP_WRITE}, {"SEND", IORING_OP_SEND},
    {"RECV", IORING_OP_RECV}, {"POLL_ADD", IORING_OP_POLL_ADD}, {"TIMEOUT", IORING_OP_TIMEOUT}, {"URING_CMD", IORING_OP_URING_CMD},
};
static int masked[OPCODES];
static struct {
    struct io_uring_probe head;
    struct io_uring_probe_op ops[OPCODES];
} known; /* what this kernel's can do, but for what is masked */

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static long registers(int ring, unsigned what, void *with, unsigned count)
{
    return syscall(SYS_io_uring_register, ring, what, with, count);
}

/* What io_uring says here. */
static void learn(void)
{
    struct io_uring_params params = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (ring < 0 || registers(ring, IORING_REGISTER_PROBE, &known, OPCODES) != 0)
        fail("io_uring");
    close(ring);
    for (int i = 0; i < OPCODES; i++)
        if (masked[i])
            known.ops[i].flags = 0;
}

/* A ring with these parameters that takes everything but what is masked. */
static int restricted(unsigned entries, struct io_uring_params *params)
{
    static struct io_uring_restriction allowed[OPCODES + CANCELS + 2];
    unsigned n = 0, flags = params->flags;
    for (int i = 0; i <= known.head.last_op; i++)
        if (!masked[i])
            allowed[n++] = (struct io_uring_restriction){.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = (__u8)i};
    for (int i = 0; i <= CANCELS; i++)
        allowed[n++] = (struct io_uring_restriction){.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = (__u8)i};
    allowed[n++] = (struct io_uring_restriction){.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = 0xff};
    params->flags = flags | IORING_SETUP_R_DISABLED;
    int ring = (int)syscall(SYS_io_uring_setup, entries, params);
    if (ring < 0)
        return -1;
    if (registers(ring, IORING_REGISTER_RESTRICTIONS, allowed, n) != 0 || registers(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0) != 0)
        fail("restrictions of io_uring");
    params->flags = flags;
    return ring;
}

/* Answers a system call of another process. */
static void answer(int listener, const struct seccomp_notif *asked)
{
    struct seccomp_notif_resp said = {.id = asked->id};
    struct io_uring_params params;
    int makes = asked->data.nr == SYS_io_uring_setup;
    struct iovec there = {(void *)asked->data.args[makes ? 1 : 2], sizeof params}, here = {&params, sizeof params};
    if (!makes) {
        size_t most = asked->data.args[3] < OPCODES ? asked->data.args[3] : OPCODES;
        here = (struct iovec){&known, sizeof known.head + most * sizeof known.ops[0]};
        there.iov_len = here.iov_len;
        if (process_vm_writev((pid_t)asked->pid, &here, 1, &there, 1, 0) < 0)
            said.error = -errno;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
        return;
    }
    int ring = process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0) < 0 ? -1 : restricted((unsigned)asked->data.args[0], &params);
    if (ring < 0 || process_vm_writev((pid_t)asked->pid, &here, 1, &there, 1, 0) < 0) {
        said.error = -errno;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
    } else {
        struct seccomp_notif_addfd gift = {.id = asked->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (__u32)ring, .newfd_flags = O_CLOEXEC};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &gift); /* who is gone does not take it */
    }
    if (ring >= 0)
        close(ring);
}

/* From now on this process and those that it makes ask `answer`. */
static int listened(int tells, int cancels)
{
    unsigned probe = tells ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EINVAL;
    unsigned cancel = cancels ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EINVAL;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ASKS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, probe),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CANCELS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, cancel),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Answers until the program is over; its exit code. */
static int serve(int listener, pid_t child)
{
    int status, gone = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd fds[] = {{listener, POLLIN, 0}, {gone, POLLIN, 0}};
    if (gone < 0)
        fail("pidfd");
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            fail("poll");
        struct seccomp_notif asked = {0};
        if ((fds[0].revents & POLLIN) && ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0)
            answer(listener, &asked);
    }
    if (waitpid(child, &status, 0) != child)
        fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    int tells = 1, cancels = 1, listener = -1, ends[2];
    if (argc < 3) {
        fprintf(stderr, "mask WHAT[,WHAT] PROGRAM ARGUMENTS\n");
        return 2;
    }
    for (char *what = strtok(argv[1], ","); what != NULL; what = strtok(NULL, ",")) {
        size_t i = 0, all = sizeof names / sizeof names[0];
        while (i < all && strcmp(what, names[i].name) != 0)
            i++;
        if (i < all)
            masked[names[i].code] = 1;
        else if (strcmp(what, "probe") == 0)
            tells = 0;
        else if (strcmp(what, "cancel") == 0)
            cancels = 0;
        else {
            fprintf(stderr, "mask: %s?\n", what);
            return 2;
        }
    }
    learn();
    if (pipe2(ends, O_CLOEXEC) != 0)
        fail("pipe");
    /* It shares descriptors with this process until it becomes the program: so the listener is here, too. */
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child < 0)
        fail("clone");
    if (child == 0) {
        listener = listened(tells, cancels);
        if (listener < 0 || write(ends[1], &listener, sizeof listener) != sizeof listener)
            fail("seccomp");
        execv(argv[2], argv + 2);
        fail(argv[2]);
    }
    struct pollfd told = {ends[0], POLLIN, 0};
    while (poll(&told, 1, 20) == 0)
        if (waitpid(child, NULL, WNOHANG) != 0)
            return 2;
    if (read(ends[0], &listener, sizeof listener) != sizeof listener)
        fail("pipe");
    return serve(listener, child);
}
