/* Counts the instructions that a program executes up to a system call: `icount_steps FILE PROGRAM ARGUMENTS...`.
 *
 * Each time the program has executed a break point instruction (`int3`), it goes on in single steps until it is about to enter
 * io_uring_enter. FILE (with the program's process number added to its name) gets a line for each time: the steps, the submissions that
 * it hands over, and the other system calls on the way. When the program raises SIGCONT, a line follows for each instruction that was executed: where it lies in its
 * file, how often, and the file. Handlers of signals that come meanwhile are counted with the rest. For x86-64. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLACES = 1 << 16, STEPS_MAX = 1 << 20, SYSCALL = 0x050f, REPNE = 0xf2, REP = 0xf3 };

typedef struct {
    uint64_t at, count;
} Place;

static Place places[PLACES];

static void die(const char *what)
{
    fprintf(stderr, "icount_steps: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void note(uint64_t at)
{
    uint64_t i = at * 0x9e3779b97f4a7c15u >> 48;
    while (places[i].count && places[i].at != at)
        i = (i + 1) % PLACES;
    places[i] = (Place){at, places[i].count + 1};
}

/* One step; or none (0), as the program has ended. Signals that come are passed on with the next. */
static int step(pid_t pid, int *signal)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, pid, 0, *signal))
        die("a step");
    if (waitpid(pid, &status, 0) != pid)
        die("waiting");
    if (!WIFSTOPPED(status))
        return 0;
    *signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    return 1;
}

static long word_at(pid_t pid, uint64_t at)
{
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
    if (errno)
        die("reading an instruction");
    return word;
}

/* Steps up to the system call. */
static void count(pid_t pid, FILE *out)
{
    struct user_regs_struct r;
    uint64_t steps = 0, calls = 0, last = 0;
    for (int signal = 0; steps < STEPS_MAX;) {
        if (ptrace(PTRACE_GETREGS, pid, 0, &r))
            die("reading registers");
        int enters = (word_at(pid, r.rip) & 0xffff) == SYSCALL;
        /* A repeated instruction is one, and stops at each repetition. */
        if (r.rip != last) {
            steps++;
            note(r.rip);
        }
        int prefix = word_at(pid, r.rip) & 0xff;
        last = prefix == REP || prefix == REPNE ? r.rip : 0;
        if (enters && r.rax == SYS_io_uring_enter) {
            fprintf(out, "start %" PRIu64 " entries %llu calls %" PRIu64 "\n", steps, r.rsi, calls);
            return;
        }
        calls += (uint64_t)enters;
        if (!step(pid, &signal))
            return;
    }
    fprintf(out, "start endless\n");
}

static void tell_places(pid_t pid, FILE *out)
{
    char name[64], line[4096], path[4096];
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    if (!maps)
        die(name);
    uint64_t from, to, offset;
    while (fgets(line, sizeof line, maps)) {
        path[0] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095s", &from, &to, &offset, path) < 3)
            continue;
        for (int i = 0; i < PLACES; i++)
            if (places[i].count && places[i].at >= from && places[i].at < to)
                fprintf(out, "place %" PRIx64 " %" PRIu64 " %s\n", places[i].at - from + offset, places[i].count, path[0] ? path : "-");
    }
    fclose(maps);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            die("being traced");
        execvp(argv[2], argv + 2);
        die(argv[2]);
    }
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", argv[1], pid);
    FILE *out = fopen(name, "w");
    if (!out)
        die(name);
    int status, begun = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        if (!begun) {
            begun = 1, signal = 0;
            if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL))
                die("options");
        } else if (signal == SIGTRAP) {
            siginfo_t info;
            signal = 0;
            if (ptrace(PTRACE_GETSIGINFO, pid, 0, &info))
                die("asking for the signal");
            if (info.si_code == SI_KERNEL)
                count(pid, out);
        } else if (signal == SIGCONT) {
            tell_places(pid, out);
            signal = 0;
        }
        if (ptrace(PTRACE_CONT, pid, 0, signal))
            die("going on");
    }
    fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
