/* What BLACS says of a wrong call, and how it ends: the argument says which. */
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
	/* The others wait for what does not come. */
	Cdgerv2d(context, 1, 1, a, 1, 0, 0);
	return 0;
}
