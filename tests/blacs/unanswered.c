/* Ten thousand messages to a process that does not answer: all sends return, MPI and BLACS go on meanwhile, and then all
 * messages come in order.  Some are contiguous and some are not, some short and some of several chunks.
 */
#include "check.h"

enum { MESSAGES = 10000, SIDE = 800 };

static double a[SIDE + 3][SIDE];

/* Every thousandth is large, every third has a gap. */
static int side(int message)
{
	return message % 1000 == 7 ? SIDE : 1 + message % 3;
}

static int leading(int message)
{
	return side(message) + (message % 3 == 0);
}

int main(void)
{
	int context, rank, size, rows, columns, row, column, sum;
	Cblacs_pinfo(&rank, &size);
	CHECK(size >= 2);
	Cblacs_get(-1, 0, &context);
	Cblacs_gridinit(&context, "R", 1, size);
	Cblacs_gridinfo(context, &rows, &columns, &row, &column);
	double *p = &a[0][0];
	for (int message = 0; message < MESSAGES; message++) {
		int n = side(message), lda = leading(message);
		for (int j = 0; j < n; j++)
			for (int i = 0; i < n; i++)
				p[j * lda + i] = message + 1e-3 * rank + i * j;
		Cdgesd2d(context, n, n, p, lda, 0, (column + 1) % size);
		CHECK(Cksendid(context, 0, (column + 1) % size) >= 0);
	}
	/* Nobody has received: an MPI collective and a BLACS one pass by. */
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(sum == size * (size - 1) / 2);
	Cigsum2d(context, "A", " ", 1, 1, &rank, 1, -1, -1);
	CHECK(rank == sum);
	/* The even ones wait in MPI for the odd ones, which receive first: who waits in MPI sends what BLACS has spooled. */
	for (int turn = 0; turn < 2; turn++) {
		if (column % 2 == 1 - turn) {
			int from = (column + size - 1) % size;
			for (int message = 0; message < MESSAGES; message++) {
				int n = side(message), lda = leading(message);
				Cdgerv2d(context, n, n, p, lda, 0, from);
				for (int j = 0; j < n; j++)
					for (int i = 0; i < n; i++)
						CHECK(p[j * lda + i] == message + 1e-3 * from + i * j);
			}
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (column == 0)
		printf("ok unanswered\n");
	fflush(stdout);
	Cblacs_freebuff(context, 1);
	Cblacs_exit(0);
	return 0;
}
