/* What the library says at MPI_Finalize of the slots that it used, if YAMABIKO_SLOTS_REPORT is set: for tests of this
 * library alone. */
#ifndef SLOTS_H
#define SLOTS_H

#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

/* Finalizes. Fails unless this rank sent and received at least `least` messages by slots and had streams bound `times` times, or,
 * where it is alone, none. */
static inline void t_finalize_slots(long least, long times)
{
    int own = dup(STDERR_FILENO), file = memfd_create("said", 0);
    long sent = 0, received = 0, bound = 0;
    static char said[4096];
    CHECK(own >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    OK(MPI_Finalize());
    fflush(stderr);
    ssize_t length = pread(file, said, sizeof said - 1, 0);
    dup2(own, STDERR_FILENO);
    fprintf(stderr, "%.*s", (int)length, said);
    const char *line = strstr(said, "persistent messages in slots: ");
    int ok = strstr(said, "no persistent message went by a slot") != NULL;
    if (t_size > 1) {
        const char *form = "persistent messages in slots: %ld sent, %ld received; streams were bound %ld time";
        ok = line && sscanf(line, form, &sent, &received, &bound) == 3 && sent >= least && received >= least && bound >= times;
    }
    if (!ok) {
        fprintf(stderr, "rank %d: too little went by slots: %ld sent, %ld received, bound %ld times\n", t_rank, sent, received,
                bound);
        _exit(1);
    }
}

#endif
