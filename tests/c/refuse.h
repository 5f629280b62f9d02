/* What a container may refuse to a process. `CHECK` comes from the including test's check.h. */
#ifndef REFUSE_H
#define REFUSE_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Two system calls, or one and -1, fail with EPERM from now on. */
static inline void refuse_calls(unsigned one, unsigned other)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static inline void refuse_io_uring(void) { refuse_calls(SYS_io_uring_setup, -1u); }

/* The kernel's copies to other processes (write), from them (read), or both. */
static inline void refuse_copies(int write, int read)
{
    refuse_calls(write ? SYS_process_vm_writev : -1u, read ? SYS_process_vm_readv : -1u);
}

#endif
