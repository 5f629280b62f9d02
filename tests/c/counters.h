/* What MPI_T's counters say. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "check.h"

/* That of this name. */
static inline unsigned long long counted(const char *name)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    int index = -1, n = 0, provided;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &n));
    SAME(n, 1);
    OK(MPI_T_pvar_read(session, handle, &value));
    OK(MPI_T_pvar_handle_free(session, &handle));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return value;
}

#endif
