/* What BLACS says of a wrong call, and how it ends: the argument says which.  A leading dimension that is too small is no end: it counts as
 * the number of rows. */
#include "check.h"

int main(int argc, char **argv)
{
	int context, rank, size;
	double a[9] = {0};
	CHECK(argc == 2);
	Cblacs_pinfo(&rank, &size);
	Cblacs_get(-1, 0, &context);
	Cblacs_gridinit(&context, "R", 1, size);
	if (rank == 0 && strcmp(argv[1], "abort") == 0)
		Cblacs_abort(context, 17);
	if (rank == 0 && strcmp(argv[1], "place") == 0)
		Cdgesd2d(context, 1, 1, a, 1, 0, size);
	if (rank == 0 && strcmp(argv[1], "scope") == 0)
		Cdgebs2d(context, "X", " ", 1, 1, a, 1);
	if (rank == 0 && strcmp(argv[1], "top") == 0)
		Cdgebs2d(context, "A", "q", 1, 1, a, 1);
	if (rank == 0 && strcmp(argv[1], "context") == 0)
		Cdgesd2d(context + 5, 1, 1, a, 1, 0, 0);
	if (strcmp(argv[1], "size") == 0) {
		if (rank == 0)
			Cdgesd2d(context, 3, 3, a, 3, 0, 1);
		else
			Cdgerv2d(context, 2, 2, a, 2, 0, 0);
	}
	if (strcmp(argv[1], "lda") == 0 && rank == 0) {
		double b[6] = {1, 2, 3, 4, 5, 6};
		Cdgesd2d(context, 3, 2, b, 2, 0, 0);
		Cdgerv2d(context, 3, 2, a, 3, 0, 0);
		CHECK(memcmp(a, b, sizeof b) == 0);
		/* These mean nothing: there is one column, or none. */
		Cdgesd2d(context, 4, 1, b, 1, 0, 0);
		Cdgerv2d(context, 4, 1, a, 0, 0, 0);
		Cdgesd2d(context, 5, 0, b, 1, 0, 0);
		Cdgerv2d(context, 5, 0, a, 1, 0, 0);
		Cblacs_abort(context, 17);
	}
	if (strcmp(argv[1], "sum") == 0) {
		double b[6] = {1, 2, 3, 4, 5, 6};
		Cdgsum2d(context, "A", " ", 3, 2, b, 1, -1, -1);
		CHECK(b[5] == 6 * size);
		Cblacs_abort(context, 17);
	}
	if (strcmp(argv[1], "ldia") == 0) {
		double b[6] = {1, 2, 3, 4, 5, 6};
		int ra[6], ca[6];
		Cdgamx2d(context, "A", " ", 3, 2, b, 3, ra, ca, 2, -1, -1);
		CHECK(ra[5] == 0);
		Cblacs_abort(context, 17);
	}
	if (strcmp(argv[1], "letters") == 0 && rank == 0) {
		double b[4] = {1, 2, 3, 4};
		Cdtrsd2d(context, "X", "?", 2, 2, b, 2, 0, 0);
		Cdtrrv2d(context, "L", "N", 2, 2, a, 2, 0, 0);
		CHECK(a[0] == 1 && a[1] == 2 && a[2] == 0 && a[3] == 4);
		Cdgesd2d(context, -1, 2, b, 1, 0, 0);
		Cdgerv2d(context, 0, 2, a, 1, 0, 0);
		Cblacs_abort(context, 17);
	}
	if (strcmp(argv[1], "exit") == 0) {
		if (rank == 0)
			Cdgesd2d(context, 1, 1, a, 1, 0, 1);
		Cblacs_gridexit(context);
		Cblacs_exit(0);
	}
	if (strcmp(argv[1], "grids") == 0)
		for (int made = 1;; made++) {
			int more;
			CHECK(made <= 64);
			Cblacs_get(-1, 0, &more);
			Cblacs_gridinit(&more, "R", 1, size);
		}
	/* The others wait for what does not come. */
	Cdgerv2d(context, 1, 1, a, 1, 0, 0);
	return 0;
}
