/* A profiler in the form in which tools come: a shared object, preloaded, that defines MPI_ functions
 * and calls their PMPI_ names.  It counts; profiled.c asks for the counts.
 */
#include <mpi.h>
#include <string.h>

static struct {
    const char *name;
    int calls;
} counters[] = {{"MPI_Send", 0},  {"MPI_Recv", 0},      {"MPI_Isend", 0},   {"MPI_Irecv", 0},   {"MPI_Wait", 0},   {"MPI_Waitall", 0},
                {"MPI_Bcast", 0}, {"MPI_Allreduce", 0}, {"MPI_Barrier", 0}, {"MPI_Comm_dup", 0}, {"MPI_Sendrecv", 0}, {"MPI_Alltoall", 0}, {"MPI_Allgather", 0}};

static void count(const char *name)
{
    for (unsigned i = 0; i < sizeof counters / sizeof *counters; i++)
        if (strcmp(counters[i].name, name) == 0)
            counters[i].calls++;
}

/* Found by the program with a weak reference. */
int profiler_calls(const char *name)
{
    for (unsigned i = 0; i < sizeof counters / sizeof *counters; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].calls;
    return -1;
}

int MPI_Send(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)
{
    count("MPI_Send");
    return PMPI_Send(b, n, t, to, tag, c);
}

int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s)
{
    count("MPI_Recv");
    return PMPI_Recv(b, n, t, from, tag, c, s);
}

int MPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
    count("MPI_Isend");
    return PMPI_Isend(b, n, t, to, tag, c, r);
}

int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
    count("MPI_Irecv");
    return PMPI_Irecv(b, n, t, from, tag, c, r);
}

int MPI_Wait(MPI_Request *r, MPI_Status *s)
{
    count("MPI_Wait");
    return PMPI_Wait(r, s);
}

int MPI_Waitall(int n, MPI_Request r[], MPI_Status s[])
{
    count("MPI_Waitall");
    return PMPI_Waitall(n, r, s);
}

int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c)
{
    count("MPI_Bcast");
    return PMPI_Bcast(b, n, t, root, c);
}

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
    count("MPI_Allreduce");
    return PMPI_Allreduce(in, out, n, t, op, c);
}

int MPI_Barrier(MPI_Comm c)
{
    count("MPI_Barrier");
    return PMPI_Barrier(c);
}

int MPI_Comm_dup(MPI_Comm c, MPI_Comm *out)
{
    count("MPI_Comm_dup");
    return PMPI_Comm_dup(c, out);
}

int MPI_Sendrecv(const void *a, int n, MPI_Datatype t, int to, int tag, void *b, int m, MPI_Datatype u, int from, int tag2, MPI_Comm c,
                 MPI_Status *s)
{
    count("MPI_Sendrecv");
    return PMPI_Sendrecv(a, n, t, to, tag, b, m, u, from, tag2, c, s);
}

int MPI_Alltoall(const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c)
{
    count("MPI_Alltoall");
    return PMPI_Alltoall(a, n, t, b, m, u, c);
}

int MPI_Allgather(const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c)
{
    count("MPI_Allgather");
    return PMPI_Allgather(a, n, t, b, m, u, c);
}
