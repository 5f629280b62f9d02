/* What MPI must not do to the process that it is a guest in.  The first argument names the test; each
 * prints "ok NAME" or says what is wrong and exits with 1.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEED(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "guest.c:%d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
            exit(1); \
        } \
    } while (0)

enum { SIGNALS = 65, BIG = 300000 };

/* Traffic that uses rings, pipe and a wait that sleeps; also on one rank. */
static void traffic(void)
{
    static char out[BIG], in[BIG];
    int rank, size, sum = 0, one = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(out, rank + 1, BIG);
    int left = (rank + size - 1) % size;
    MPI_Sendrecv(out, BIG, MPI_BYTE, (rank + 1) % size, 1, in, BIG, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    NEED(in[0] == left + 1 && in[BIG - 1] == left + 1);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    NEED(sum == size);
}

static int is_first(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0;
}

static void done(const char *name)
{
    int first = is_first();
    MPI_Finalize();
    if (first)
        printf("ok %s\n", name);
}

/* What the kernel says of every signal: disposition and mask. */
static void dispositions(struct sigaction *all, sigset_t *mask)
{
    for (int s = 1; s < SIGNALS; s++) {
        memset(&all[s], 0, sizeof all[s]);
        sigaction(s, NULL, &all[s]);
    }
    sigprocmask(SIG_BLOCK, NULL, mask);
}

static void unchanged(const struct sigaction *before, const sigset_t *mask_before)
{
    struct sigaction now[SIGNALS];
    sigset_t mask;
    dispositions(now, &mask);
    for (int s = 1; s < SIGNALS; s++) {
        NEED(now[s].sa_handler == before[s].sa_handler);
        NEED(now[s].sa_flags == before[s].sa_flags);
    }
    for (int s = 1; s < SIGNALS; s++)
        NEED(sigismember(&mask, s) == sigismember(mask_before, s));
}

static void signals(void)
{
    struct sigaction before[SIGNALS];
    sigset_t mask;
    dispositions(before, &mask);
    NEED(before[SIGPIPE].sa_handler == SIG_DFL);
    MPI_Init(NULL, NULL);
    unchanged(before, &mask);
    traffic();
    unchanged(before, &mask);
    int first = is_first();
    MPI_Finalize();
    unchanged(before, &mask);
    if (first)
        printf("ok signals\n");
}

/* Marks the descriptors that are open, standard ones left out. */
static int descriptors(char *open, int size)
{
    DIR *folder = opendir("/proc/self/fd");
    int found = 0;
    NEED(folder != NULL);
    memset(open, 0, (size_t)size);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (fd > 2 && fd < size && fd != dirfd(folder)) {
            open[fd] = 1;
            found++;
        }
    }
    closedir(folder);
    return found;
}

/* Started by descriptors_closed() with exec: nothing of MPI's may be open here. */
static int count_open(void)
{
    char open[1024];
    int found = descriptors(open, sizeof open);
    if (found != 0)
        fprintf(stderr, "%d descriptors are open after exec\n", found);
    return found != 0;
}

static void run(const char *program, const char *argument)
{
    pid_t child = fork();
    int status = -1;
    NEED(child >= 0);
    if (child == 0) {
        execl(program, program, argument, (char *)NULL);
        _exit(127);
    }
    NEED(waitpid(child, &status, 0) == child);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void descriptors_closed(const char *self)
{
    char before[1024], during[1024], after[1024];
    descriptors(before, sizeof before);
    MPI_Init(NULL, NULL);
    traffic();
    descriptors(during, sizeof during);
    for (int fd = 3; fd < 1024; fd++)
        if (during[fd])
            NEED(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    run(self, "count-open");
    int first = is_first();
    MPI_Finalize();
    descriptors(after, sizeof after);
    for (int fd = 3; fd < 1024; fd++)
        NEED(!after[fd] || before[fd]);
    if (first)
        printf("ok descriptors\n");
}

static void fork_and_exec(void)
{
    MPI_Init(NULL, NULL);
    for (int i = 0; i < 5; i++) {
        traffic();
        run("/bin/sh", "-n"); /* reads its standard input, finds nothing to complain about */
        NEED(system("exit 0") == 0);
        pid_t child = fork();
        NEED(child >= 0);
        if (child == 0)
            exit(0); /* with the exit handlers, as Python's children do */
        int status = -1;
        NEED(waitpid(child, &status, 0) == child && status == 0);
    }
    traffic();
    done("fork");
}

/* A child that uses MPI has to say so and fail, and must not disturb its parent's job. */
static void in_child(int initialise)
{
    int pipes[2], status = -1;
    char said[4096] = "";
    size_t length = 0;
    MPI_Init(NULL, NULL);
    NEED(pipe(pipes) == 0);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        alarm(10);
        if (initialise)
            MPI_Init(NULL, NULL);
        else
            MPI_Barrier(MPI_COMM_WORLD);
        _exit(0);
    }
    close(pipes[1]);
    for (ssize_t n; (n = read(pipes[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)n;
    NEED(waitpid(child, &status, 0) == child);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    if (!strstr(said, "fork")) {
        fprintf(stderr, "the child only said: %s\n", said);
        exit(1);
    }
    traffic();
    done(initialise ? "child-init" : "child");
}

static void at_exit(void)
{
    done("atexit");
}

static void undumpable(void)
{
    NEED(prctl(PR_SET_DUMPABLE, 0) == 0);
    MPI_Init(NULL, NULL);
    traffic();
    done("undumpable");
}

static void plain(void)
{
    MPI_Init(NULL, NULL);
    traffic();
    done("plain");
}

/* Rank 0 calls a collective that the others don't: a mistake, which the report has to show as it is. */
static void early(void)
{
    MPI_Init(NULL, NULL);
    if (is_first())
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    const char *test = argc > 1 ? argv[1] : "plain";
    if (!strcmp(test, "signals"))
        signals();
    else if (!strcmp(test, "descriptors"))
        descriptors_closed(argv[0]);
    else if (!strcmp(test, "count-open"))
        return count_open();
    else if (!strcmp(test, "fork"))
        fork_and_exec();
    else if (!strcmp(test, "child"))
        in_child(0);
    else if (!strcmp(test, "child-init"))
        in_child(1);
    else if (!strcmp(test, "undumpable"))
        undumpable();
    else if (!strcmp(test, "plain"))
        plain();
    else if (!strcmp(test, "early"))
        early();
    else if (!strcmp(test, "atexit")) {
        MPI_Init(NULL, NULL);
        traffic();
        atexit(at_exit);
    } else {
        fprintf(stderr, "no such test: %s\n", test);
        return 2;
    }
    return 0;
}
