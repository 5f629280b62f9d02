/* Messages of few elements through contexts used in turn, of different shapes, whose numbers are used again when they have ended. What comes
 * is what was sent in that context, in order.
 */
#include "check.h"

enum { CONTEXTS = 3, ROUNDS = 200, LIVES = 5 };

static int size, contexts[CONTEXTS], rank;

static double number(int from, int context, int message)
{
	return from * 1e6 + context * 1e4 + message;
}

/* One row, one column, or rows as many as go into the processes at most, numbered by columns. */
static void begin(int which)
{
	int rows = which == 1 ? size : 1;
	if (which == 2)
		for (int i = 2; i < size; i++)
			rows = size % i == 0 ? i : rows;
	Cblacs_get(-1, 0, &contexts[which]);
	Cblacs_gridinit(&contexts[which], which == 2 ? "C" : "R", rows, size / rows);
}

/* The coordinates of a process of the grid of a context, `by` further along the ring of its numbers. */
static void place(int which, int by, int *row, int *column)
{
	int rows, columns, own, mine;
	Cblacs_gridinfo(contexts[which], &rows, &columns, &own, &mine);
	int at = (own * columns + mine + by + size) % size;
	*row = at / columns;
	*column = at % columns;
}

/* The process there, by its number in the world. */
static int who(int which, int row, int column)
{
	int rows, columns, own, mine;
	Cblacs_gridinfo(contexts[which], &rows, &columns, &own, &mine);
	return which == 2 ? column * rows + row : row * columns + column;
}

static void exchange(int which, int message)
{
	int row, column, m = 1 + message % 3;
	double out[3], in[3] = {-1, -1, -1};
	for (int i = 0; i < m; i++)
		out[i] = number(rank, which, message) + i;
	place(which, 1, &row, &column);
	Cdgesd2d(contexts[which], m, 1, out, m, row, column);
	place(which, -1, &row, &column);
	Cdgerv2d(contexts[which], m, 1, in, m, row, column);
	for (int i = 0; i < m; i++)
		CHECK(in[i] == number(who(which, row, column), which, message) + i);
}

int main(void)
{
	Cblacs_pinfo(&rank, &size);
	for (int life = 0; life < LIVES; life++) {
		for (int which = 0; which < CONTEXTS; which++)
			begin(which);
		for (int message = 0; message < ROUNDS; message++)
			exchange(life % 2 ? message / 20 % CONTEXTS : message % CONTEXTS, message);
		/* The last that was used ends first, then others go on. */
		int last = (ROUNDS - 1) % CONTEXTS;
		Cblacs_gridexit(contexts[last]);
		for (int which = 0; which < CONTEXTS; which++)
			if (which != last)
				exchange(which, life);
		begin(last);
		for (int which = 0; which < CONTEXTS; which++)
			exchange(which, life + 1);
		for (int which = 0; which < CONTEXTS; which++)
			Cblacs_gridexit(contexts[which]);
	}
	if (rank == 0)
		printf("ok contexts\n");
	fflush(stdout);
	Cblacs_exit(0);
	return 0;
}
