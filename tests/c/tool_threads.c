/* The tool information interface with threads, which was asked for before MPI, in a program that gives MPI one thread: a thread of the tool reads variables while the main one
 * waits in MPI, and does so before its peer sends.
 */
#include "shared.h"
#include <pthread.h>
#include <stdatomic.h>

enum { READS = 1000, TOOLS = 3, ROUNDS = 20 };

static _Atomic int *have_read; /* by all tool threads of the receiver */

static void *read_variables(void *nothing)
{
    for (int i = 0; i < READS; i++) {
        MPI_T_pvar_session session;
        MPI_T_pvar_handle handle;
        unsigned long long value = ~0ull;
        int all = 0, n = 0;
        OK(MPI_T_pvar_get_num(&all));
        CHECK(all > 0);
        OK(MPI_T_pvar_session_create(&session));
        OK(MPI_T_pvar_handle_alloc(session, i % all, NULL, &handle, &n));
        OK(MPI_T_pvar_read(session, handle, &value));
        CHECK(value != ~0ull);
        OK(MPI_T_pvar_handle_free(session, &handle));
        OK(MPI_T_pvar_session_free(&session));
    }
    atomic_fetch_add(have_read, 1);
    return nothing;
}

int main(int argc, char **argv)
{
    int provided = -1, level = -1, sent = 7;
    pthread_t tools[TOOLS];
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    SAME(provided, MPI_THREAD_MULTIPLE);
    t_init(&argc, &argv);
    OK(MPI_Query_thread(&level));
    SAME(level, MPI_THREAD_SINGLE);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    SAME(provided, MPI_THREAD_MULTIPLE);
    have_read = shared(sizeof *have_read);
    int next = (t_rank + 1) % t_size, last = (t_rank + t_size - 1) % t_size;
    for (int round = 0; round < ROUNDS; round++) {
        /* Rank 0 waits, and what it waits for comes round the ring. A collective is under way meanwhile. */
        int ones[2] = {1, t_rank}, sums[2];
        MPI_Request reduced;
        OK(MPI_Iallreduce(ones, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &reduced));
        if (t_rank == 0) {
            int got = 0;
            MPI_Request r;
            for (int t = 0; t < TOOLS; t++)
                CHECK(pthread_create(&tools[t], NULL, read_variables, NULL) == 0);
            OK(MPI_Irecv(&got, 1, MPI_INT, last, round, MPI_COMM_WORLD, &r));
            if (t_size == 1) {
                for (int t = 0; t < TOOLS; t++)
                    CHECK(pthread_join(tools[t], NULL) == 0);
                OK(MPI_Send(&sent, 1, MPI_INT, 0, round, MPI_COMM_WORLD));
            }
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            SAME(got, sent);
            SAME(atomic_load(have_read), TOOLS * (round + 1));
            for (int t = 0; t < TOOLS && t_size > 1; t++)
                CHECK(pthread_join(tools[t], NULL) == 0);
        } else {
            if (t_rank == 1)
                while (atomic_load(have_read) < TOOLS * (round + 1))
                    usleep(200);
            else
                OK(MPI_Recv(&sent, 1, MPI_INT, last, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Send(&sent, 1, MPI_INT, next, round, MPI_COMM_WORLD));
        }
        OK(MPI_Wait(&reduced, MPI_STATUS_IGNORE));
        SAME(sums[0], t_size);
        SAME(sums[1], t_size * (t_size - 1) / 2);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_T_finalize());
    OK(MPI_T_finalize());
    return t_done("tool_threads");
}
