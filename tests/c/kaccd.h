/* A kaccd of the test's own, under a name that the ranks of one job share. To be started before MPI is. */
#ifndef KACCD_H
#define KACCD_H

#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t kaccd = -1; /* this process's child, if it is the one */

/* The process that has the name and listens, or -1. */
static pid_t kaccd_listens(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    struct ucred who = {.pid = -1};
    socklen_t bytes = sizeof who;
    memcpy(address.sun_path + 1, name, length);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(s >= 0);
    if (connect(s, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
        CHECK(getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0);
    close(s);
    return who.pid;
}

/* `yamabiko kaccd`, of the installation that mpiexec is of; it ends with this process. `*says`: what it writes to. */
static pid_t kaccd_child(const char *name, int *says)
{
    char program[4096], link[64], port[16];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)getppid());
    ssize_t length = readlink(link, program, sizeof program - 16);
    CHECK(length > 0);
    program[length] = 0;
    strcpy(strrchr(program, '/'), "/yamabiko");
    snprintf(port, sizeof port, "%d", 20000 + (int)getppid() % 10000);
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 2);
        execl(program, program, "kaccd", "--name", name, "--port", port, (char *)NULL);
        _exit(126);
    }
    close(ends[1]);
    *says = ends[0];
    return child;
}

/* Starts it, or finds that another rank has. 0: the kernel refuses it what it needs, and a line with `words`, which the test has to say, says so. */
static int kaccd_started(const char *words)
{
    char name[64], text[4096];
    snprintf(name, sizeof name, "kaccd of test %d", (int)getppid());
    setenv("YAMABIKO_KACCD", name, 1);
    for (double begin = t_seconds(); t_seconds() < begin + 40; t_sleep_ms(5)) {
        pid_t listens = kaccd_listens(name);
        if (listens > 0)
            return 1;
        int says, status, waited;
        pid_t child = kaccd_child(name, &says);
        while ((waited = waitpid(child, &status, WNOHANG)) == 0 && (listens = kaccd_listens(name)) != child)
            t_sleep_ms(5);
        if (waited == 0) {
            kaccd = child;
            close(says);
            return 1;
        }
        ssize_t length = read(says, text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        close(says);
        if (strstr(text, "the kernel refuses ") != NULL) {
            printf("skipped: %s: %s", words, text);
            fflush(stdout);
            return 0;
        }
        if (strstr(text, "its name can't be had") == NULL)
            t_fail(__FILE__, __LINE__, "kaccd ended with %d: %s", status, text);
    }
    t_fail(__FILE__, __LINE__, "there is no kaccd");
}

/* For what runs in the kernel's receive path. */
static inline int kaccd_start(void)
{
    return kaccd_started("in the kernel's receive path: nothing, in calls: 0, and 0 that it had been given; woken never; said again never");
}

/* For what calculates in chains of the ring: 0 also where there is no control group (of version 2) for it. */
static inline int kaccd_calculates(const char *words)
{
    FILE *groups = fopen("/proc/self/mountinfo", "r");
    char line[4096];
    int there = 0;
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL)
        there |= strstr(line, " - cgroup2 ") != NULL;
    if (groups != NULL)
        fclose(groups);
    if (!there)
        printf("skipped: %s: no control groups of version 2\n", words);
    return there && kaccd_started(words);
}

static inline void kaccd_stop(void)
{
    if (kaccd > 0) {
        kill(kaccd, SIGKILL);
        waitpid(kaccd, NULL, 0);
        kaccd = -1;
    }
}

#endif
