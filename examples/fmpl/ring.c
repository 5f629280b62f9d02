/* A number goes round all processes, each adding one: FMPL without MPI.
 *
 *     cc ring.c -o ring $(pkg-config --cflags --libs fmpl)
 *     mpiexec -n 4 ./ring
 */
#include <fmpl.h>
#include <stdio.h>
#include <stdlib.h>

enum { INDICES = 4, NUMBER = 0 };

static void need(int code)
{
    if (code == FMPL_SUCCESS)
        return;
    fprintf(stderr, "ring: %s\n", fmpl_strerror(code));
    exit(1);
}

int main(void)
{
    int rank, size, ier, number;
    need(fmpl_init(NULL, NULL, INDICES, &ier));
    need(fmpl_comm_rank(FMPL_COMM_WORLD, &rank, &ier));
    need(fmpl_comm_size(FMPL_COMM_WORLD, &size, &ier));
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    /* Where the number goes stands in a slot at the left neighbour before that sends it: nothing has to be matched. */
    need(fmpl_irecv(&number, sizeof number, left, NUMBER, FMPL_COMM_WORLD, &ier));
    if (rank == 0) {
        int first = 1;
        need(fmpl_send(&first, sizeof first, right, NUMBER, FMPL_COMM_WORLD, &ier));
    }
    need(fmpl_irecv_wait(left, NUMBER, FMPL_COMM_WORLD, &ier));
    if (rank == 0) {
        printf("%d processes counted %d\n", size, number);
    } else {
        number++;
        need(fmpl_send(&number, sizeof number, right, NUMBER, FMPL_COMM_WORLD, &ier));
    }
    need(fmpl_finalize(&ier));
    return 0;
}
