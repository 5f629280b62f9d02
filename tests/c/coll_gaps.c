/* Reductions of few elements that lie far apart: the gaps between them need address space, and no memory; and that behind a single one not even
 * that. (MPICH 5.0.2 needs memory for all of it.) */
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { N = 3, WORDS = 1024 };

static const MPI_Aint EXTENT = (MPI_Aint)1 << 28;
/* More than MPI and the elements' pages need, and less than a single gap has; KiB. */
static const long MOST = 100 << 10;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        *(int *)((char *)inout + i * EXTENT) += *(int *)((char *)in + i * EXTENT);
}

static int *element(char *of, int i)
{
    return (int *)(of + i * EXTENT);
}

static char *sparse(void)
{
    void *memory = mmap(NULL, (size_t)(N * EXTENT), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void add_words(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    CHECK(*count == 1);
    for (int i = 0; i < WORDS; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* One long element of a type with a large extent. */
static void wide(void)
{
    static int out[WORDS], in[WORDS];
    MPI_Datatype words, type;
    MPI_Request request;
    MPI_Op op;
    OK(MPI_Type_contiguous(WORDS, MPI_INT, &words));
    OK(MPI_Type_create_resized(words, 0, (MPI_Aint)1 << 40, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(add_words, 1, &op));
    for (int i = 0; i < WORDS; i++)
        out[i] = t_rank + i;
    OK(MPI_Iallreduce(out, in, 1, type, op, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < WORDS; i++)
        SAME(in[i], t_size * (t_size - 1) / 2 + t_size * i);
    OK(MPI_Iallreduce(MPI_IN_PLACE, out, 1, type, op, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(out[WORDS - 1], in[WORDS - 1]);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&words));
}

int main(int argc, char **argv)
{
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request request;
    struct rusage usage;
    t_init(&argc, &argv);
    char *out = sparse(), *in = sparse();
    OK(MPI_Type_create_resized(MPI_INT, 0, EXTENT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(add, 1, &op));
    for (int i = 0; i < N; i++)
        *element(out, i) = t_rank + i;
    OK(MPI_Allreduce(out, in, N, type, op, MPI_COMM_WORLD));
    SAME(*element(in, 2), t_size * (t_size - 1) / 2 + 2 * t_size);
    OK(MPI_Iallreduce(out, in, N, type, op, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(*element(in, 1), t_size * (t_size - 1) / 2 + t_size);
    OK(MPI_Scan(out, in, N, type, op, MPI_COMM_WORLD));
    SAME(*element(in, 0), t_rank * (t_rank + 1) / 2);
    OK(MPI_Reduce(out, in, N, type, op, t_size - 1, MPI_COMM_WORLD));
    if (t_rank == t_size - 1)
        SAME(*element(in, 2), t_size * (t_size - 1) / 2 + 2 * t_size);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    if (usage.ru_maxrss > MOST)
        t_fail(__FILE__, __LINE__, "%ld KiB are resident", usage.ru_maxrss);
    wide();
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&type));
    CHECK(munmap(out, (size_t)(N * EXTENT)) == 0 && munmap(in, (size_t)(N * EXTENT)) == 0);
    return t_done("coll_gaps");
}
