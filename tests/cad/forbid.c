/* Runs a program where less is allowed than here: forbid WHAT[,WHAT] PROGRAM ARGUMENTS.
 *
 * io_uring   the system call is refused, as in many containers
 * bpf        the same of eBPF
 * threads    processes have one thread
 * root       it runs as a user without privilege
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static int refuse(unsigned first, unsigned second)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

/* A C library that finds no clone3 takes clone, whose flags can be looked at. */
static int refuse_threads(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "forbid WHAT[,WHAT] PROGRAM ARGUMENTS\n");
        return 2;
    }
    unsigned none = ~0u, ring = none, bpf = none;
    int single = 0;
    for (char *what = strtok(argv[1], ","); what != NULL; what = strtok(NULL, ",")) {
        if (strcmp(what, "io_uring") == 0)
            ring = SYS_io_uring_setup;
        else if (strcmp(what, "bpf") == 0)
            bpf = SYS_bpf;
        else if (strcmp(what, "threads") == 0)
            single = 1;
        else if (strcmp(what, "root") != 0 || setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
                 setresuid(NOBODY, NOBODY, NOBODY) != 0) {
            perror(what);
            return 2;
        }
    }
    if (refuse(ring, bpf) || (single && refuse_threads())) {
        perror("forbid");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
