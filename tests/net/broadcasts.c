/* Broadcasts of ranks on hosts of their own, or of which those of a host follow on one another, around the lengths from which on they go along a chain, from every root; ranks with an odd
 * number have gaps between their elements.  Checks the data, and that long ones go out of the root's host once.
 */
#include "../c/check.h"

/* Integers from which on three ranks make a chain; each further one takes as many more. */
enum { CHAIN = (128 << 10) / sizeof(int) };
enum { ELEMENTS = 300000, LONG = 1 << 20, TIMES = 8, GAP = 3 };

/* Bytes that this host has sent through eth0. */
static double sent(void)
{
    char line[512];
    double bytes = -1;
    FILE *devices = fopen("/proc/net/dev", "r");
    CHECK(devices != NULL);
    while (fgets(line, sizeof line, devices)) {
        char *name = strstr(line, "eth0:");
        if (name)
            CHECK(sscanf(name + strlen("eth0:"), "%*s %*s %*s %*s %*s %*s %*s %*s %lf", &bytes) == 1);
    }
    fclose(devices);
    CHECK(bytes >= 0);
    return bytes;
}

static int element(int i, int count, int root)
{
    return i * 7 + count * 31 + root;
}

/* One of so many integers. */
static void broadcast(int *data, int count, int root, MPI_Datatype gaps)
{
    int step = t_rank % 2 ? GAP : 1;
    for (int i = 0; i < count * step; i++)
        data[i] = -1;
    if (t_rank == root)
        for (int i = 0; i < count; i++)
            data[i * step] = element(i, count, root);
    OK(MPI_Bcast(data, count, step > 1 ? gaps : MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) {
        SAME(data[i * step], element(i, count, root));
        for (int j = 1; j < step; j++)
            SAME(data[i * step + j], -1);
    }
}

static void goes_out_once(char *data)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double before = sent();
    for (int i = 0; i < TIMES; i++)
        OK(MPI_Bcast(data, LONG, MPI_BYTE, 0, MPI_COMM_WORLD));
    /* All have them. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double bytes = sent() - before;
    if (t_rank == 0)
        CHECK(bytes > TIMES * (double)LONG && bytes < 1.5 * TIMES * (double)LONG);
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    const int chain = CHAIN * (t_size - 2);
    const int counts[] = {1, 5000, chain - 1, chain, ELEMENTS};
    int *data = t_alloc(sizeof(int) * ELEMENTS * GAP);
    MPI_Datatype gaps;
    OK(MPI_Type_create_resized(MPI_INT, 0, GAP * (MPI_Aint)sizeof(int), &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int root = 0; root < t_size; root++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            broadcast(data, counts[i], root, gaps);
    goes_out_once((char *)data);
    OK(MPI_Type_free(&gaps));
    free(data);
    return t_done("broadcasts");
}
