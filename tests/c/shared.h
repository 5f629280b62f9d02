/* Memory that all ranks of a machine see, in which they tell each other what they may not tell in MPI. */
#ifndef SHARED_H
#define SHARED_H

#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* So many bytes, zeroed at first; all ranks call it. */
static inline void *shared(size_t bytes)
{
    char name[] = "/tmp/yamabiko_test.XXXXXX";
    int file = -1;
    if (t_rank == 0) {
        file = mkstemp(name);
        CHECK(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
    }
    OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (t_rank != 0)
        file = open(name, O_RDWR);
    CHECK(file >= 0);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    close(file);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (t_rank == 0)
        CHECK(unlink(name) == 0);
    return memory;
}

#endif
