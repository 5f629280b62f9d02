/* A rank ends without MPI_Finalize while all others wait for it. mpiexec has to name that rank and its code, and no rank that could not go on.
 *
 * Arguments: its exit code; how the others wait: "recv", "waitall" or "bcast", or that they "send"; milliseconds between the end of its
 * connections, if it has any, and its own; what the others do then: "" for what MPI does by itself, or "exit", "abort", "assert" (something
 * that is not so) or "finalize".
 */
#include "check.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* What dies slowly has its connections closed before the launcher sees it end. */
static void leave(int code, int ms)
{
    for (int fd = 3; ms > 0 && fd < 256; fd++) {
        int domain;
        socklen_t length = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && (domain == AF_INET || domain == AF_INET6))
            close(fd);
    }
    usleep(1000 * (useconds_t)ms);
    _exit(code);
}

int main(int argc, char **argv)
{
    int never;
    MPI_Request r;
    t_init(&argc, &argv);
    CHECK(argc == 5);
    if (argv[4][0])
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    /* Everybody has a connection to everybody. */
    for (int i = 0; i < t_size; i++)
        OK(MPI_Sendrecv(&t_rank, 1, MPI_INT, (t_rank + i) % t_size, 1, &never, 1, MPI_INT, (t_rank + t_size - i) % t_size, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 1)
        leave(atoi(argv[1]), atoi(argv[3]));
    if (!strcmp(argv[2], "recv"))
        MPI_Recv(&never, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!strcmp(argv[2], "send")) {
        /* Not before its connections are closed, so that the send itself fails. */
        usleep(20000);
        while (MPI_Send(&t_rank, 1, MPI_INT, 1, 2, MPI_COMM_WORLD) == MPI_SUCCESS)
            ;
    } else if (!strcmp(argv[2], "bcast"))
        MPI_Bcast(&never, 1, MPI_INT, 1, MPI_COMM_WORLD);
    else {
        OK(MPI_Irecv(&never, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &r));
        MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
    }
    if (!strcmp(argv[4], "exit"))
        exit(9);
    if (!strcmp(argv[4], "abort"))
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (!strcmp(argv[4], "assert")) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        abort();
    }
    if (!strcmp(argv[4], "finalize")) {
        OK(MPI_Finalize());
        exit(9);
    }
    return 0;
}
