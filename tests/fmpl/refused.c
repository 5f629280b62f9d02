/* Counts that don't agree, in a program that has nothing but FMPL: all are told, and can end in order.  Before and after that, and between,
 * communicators that were never made are told from FMPL that has not been started. */
#include "check.h"

int main(void) {
    int flag = -1, rank;
    GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_barrier(FMPL_COMM_WORLD, &ier));
    GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_finalize(&ier));
    const char *own = getenv("PMI_RANK");
    CHECK(own != NULL);
    me = atoi(own);
    GIVES(FMPL_ERR_COUNT, fmpl_init(NULL, NULL, me == 0 ? 4 : 5, &ier));
    OK(fmpl_initialized(&flag, &ier));
    CHECK(flag == 0);
    GIVES(FMPL_ERR_NOT_INITIALISED, fmpl_comm_rank(FMPL_COMM_WORLD, &rank, &ier));
    GIVES(FMPL_ERR_COMM, fmpl_comm_rank(1, &rank, &ier));
    OK(fmpl_finalize(&ier));
    GIVES(FMPL_ERR_FINALIZED, fmpl_finalize(&ier));
    GIVES(FMPL_ERR_FINALIZED, fmpl_init(NULL, NULL, 4, &ier));
    if (me == 0)
        printf("ok refused\n");
    return 0;
}
