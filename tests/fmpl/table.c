/* What libraries built on FMPL use beyond fmpl.h: the table itself, an area of their own, communicators of a list, and the
 * ranks of MPI's communicators. Here it is looked up as they do, and read by position. */
#include <mpi.h>
#include "check.h"
#include <dlfcn.h>
#include <stddef.h>

typedef void (*function)(void);
typedef struct { uint32_t size, version; function f[]; } table;
enum { ATTACH = 2, DETACH, PHASE, RANK = 9, SLOTS = 11, FROM_RANKS = 13, FREE, RANKS, MPI_RANKS, FORTRAN_RANKS, WORLD, C2F,
       F2C, SEND, RECV, IRECV = 24, IRECV_WAIT = 26, PROGRESS = 37, OFFERED = 46 };

static const table *t;
#define F(which, type) ((type)t->f[which])

typedef int plain(void);
typedef int int_out(int, int *);
typedef int list(uintptr_t, int *, int, int *);

static void ranks_are(int code, const int *got, int n, const int *expected, int count) {
    CHECK(code == 0 && n == count);
    for (int i = 0; i < n; i++)
        CHECK(got[i] == expected[i]);
}

int main(int argc, char **argv) {
    const table *(*get)(uint32_t) = (const table *(*)(uint32_t))dlsym(RTLD_DEFAULT, "yamabiko_fmpl_table");
    CHECK(get && !get(0) && !get(1) && !get(99) && (t = get(2)) && t->version == 2);
    CHECK(F(PHASE, plain *)() == 0);
    CHECK(F(DETACH, plain *)() == FMPL_ERR_NOT_INITIALISED);
    CHECK(F(ATTACH, plain *)() == 0 && F(ATTACH, plain *)() == 0 && F(PHASE, plain *)() == 1);
    int flag = 0, n = 0, got[64], expected[64];
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int64_t slots = 0;
    CHECK(F(SLOTS, int (*)(int, int64_t *))(1, &slots) == 0 && slots == 1024);
    CHECK(F(RANK, int_out *)(0, &n) == FMPL_ERR_NOT_INITIALISED);

    /* Every other process, last first. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &half);
    int count = 0;
    for (int p = size - 1; p >= 0; p--)
        if (p % 2 == me % 2)
            expected[count++] = p;
    uintptr_t handle = (uintptr_t)half;
    int fortran = MPI_Comm_toint(half);
    int code = F(MPI_RANKS, list *)(handle, got, 64, &n);
    ranks_are(code, got, n, expected, count);
    code = F(FORTRAN_RANKS, int (*)(int, int *, int, int *))(fortran, got, 64, &n);
    ranks_are(code, got, n, expected, count);
    CHECK(F(C2F, int (*)(uintptr_t))(handle) == fortran);
    /* An ABI whose handles are ints has them in the lower half. */
    CHECK((MPI_Comm)F(F2C, uintptr_t (*)(int))(fortran) == half);
    CHECK(F(MPI_RANKS, list *)(12345, got, 64, &n) == FMPL_ERR_COMM);
    uintptr_t world = 0;
    CHECK(F(WORLD, int (*)(uintptr_t *, int *))(&world, &n) == 0 && (MPI_Comm)world == MPI_COMM_WORLD);
    CHECK(n == MPI_Comm_toint(MPI_COMM_WORLD));

    /* A communicator of that list in the libraries' area; only its members call. */
    int comm = -9;
    typedef int from_ranks(int, const int *, int, int, int *);
    CHECK(F(FROM_RANKS, from_ranks *)(1, expected, count, 0, &comm) == 0 && comm > 1);
    code = F(RANKS, int (*)(int, int *, int, int *))(comm, got, 64, &n);
    ranks_are(code, got, n, expected, count);

    /* Its sends never wait. */
    typedef int message(void *, int64_t, int, int, int);
    int mine, b;
    CHECK(F(RANK, int_out *)(comm, &mine) == 0);
    for (int i = 0; i < 500; i++)
        CHECK(F(SEND, message *)(&i, sizeof i, (mine + 1) % count, 1023, comm) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 500; i++) {
        CHECK(F(RECV, message *)(&b, sizeof b, (mine + count - 1) % count, 1023, comm) == 0 && b == i);
    }

    /* A sender sees how much its receiver has room for. */
    typedef int offered(int, int, int, uint64_t, int64_t *);
    int right = (mine + 1) % count, left = (mine + count - 1) % count;
    int64_t room = 0, buf[3] = {0}, one = 1;
    CHECK(t->size > offsetof(table, f) + OFFERED * sizeof(function));
    CHECK(F(OFFERED, offered *)(right, 1024, comm, 0, &room) == FMPL_ERR_INDEX);
    CHECK(F(OFFERED, offered *)(right, 7, comm, 0, NULL) == FMPL_ERR_BUFFER);
    for (uint64_t patience = 0; patience < 10000000; patience += 2000000)
        CHECK(F(OFFERED, offered *)(right, 7, comm, patience, &room) == 0 && room == -1);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(F(IRECV, message *)(buf, sizeof buf, left, 7, comm) == 0);
    CHECK(F(PROGRESS, int (*)(int *))(NULL) == 0);
    /* With patience it is waited for. */
    CHECK(F(OFFERED, offered *)(right, 7, comm, UINT64_MAX, &room) == 0);
    CHECK(room == sizeof buf);
    CHECK(F(SEND, message *)(&one, sizeof one, right, 7, comm) == 0);
    CHECK(F(IRECV_WAIT, int (*)(int, int, int))(left, 7, comm) == 0 && buf[0] == 1 && buf[1] == 0);
    CHECK(F(OFFERED, offered *)(right, 7, comm, 0, &room) == 0 && room == -1);
    CHECK(F(FREE, int (*)(int *))(&comm) == 0 && comm == -1);
    MPI_Comm_free(&half);
    CHECK(F(DETACH, plain *)() == 0 && F(DETACH, plain *)() == 0);
    CHECK(F(DETACH, plain *)() == FMPL_ERR_NOT_INITIALISED);
    /* MPI_Init took it over, so it still runs. */
    CHECK(F(PHASE, plain *)() == 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    CHECK(F(PHASE, plain *)() == 2 && F(ATTACH, plain *)() == FMPL_ERR_FINALIZED);
    if (me == 0)
        printf("ok table\n");
    return 0;
}
