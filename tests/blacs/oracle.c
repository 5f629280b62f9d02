/* What BLACS does against what a naive reader of its definition computes: all types, shapes, scopes and topologies on a grid
 * whose sides are arguments, small matrices and such of several MiB.
 *
 * usage: oracle ROWS COLUMNS ROUNDS MOST      MOST: largest side of a matrix
 *
 * Every process draws the same steps, and computes from their numbers what each process's matrix held.
 */
#include "check.h"

enum { INT, SINGLE, DOUBLE, COMPLEX, ZCOMPLEX, TYPES };

static const char letters[] = "isdcz";
static const size_t sizes[] = {4, 4, 8, 8, 16};
static const char tops[] = " IDSMFHT123456789";

static int context, nprow, npcol, myrow, mycol, me;

/* --- The same numbers at all processes. */

static unsigned long long seed;

static int draw(int below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (int)((seed >> 33) % (unsigned)below);
}

static int small(int process, int step, long at, int half)
{
	unsigned long long x = process * 31ULL + step * 7ULL + at * 3ULL + half * 5ULL + 1;
	x *= 0x9e3779b97f4a7c15ULL;
	return (int)((x >> 40) % 7) - 3;
}

static void element(int type, int process, int step, long at, int *re, int *im)
{
	*re = small(process, step, at, 0);
	*im = type >= COMPLEX ? small(process, step, at, 1) : 0;
}

static void store(int type, void *a, long at, int re, int im)
{
	switch (type) {
	case INT: ((int *)a)[at] = re; break;
	case SINGLE: ((float *)a)[at] = (float)re; break;
	case DOUBLE: ((double *)a)[at] = re; break;
	case COMPLEX: ((float *)a)[2 * at] = (float)re; ((float *)a)[2 * at + 1] = (float)im; break;
	default: ((double *)a)[2 * at] = re; ((double *)a)[2 * at + 1] = im;
	}
}

static void *filled(int type, int process, int step, long elements)
{
	void *a = malloc(elements * sizes[type] + 16);
	CHECK(a != NULL);
	for (long at = 0; at < elements; at++) {
		int re, im;
		element(type, process, step, at, &re, &im);
		store(type, a, at, re, im);
	}
	return a;
}

/* --- The step. */

struct step {
	int number, type, m, n, lda[2];
	char scope[2], top[2], uplo[2], diag[2];
	int general;
};

static int belongs(const struct step *s, int i, int j)
{
	if (s->general)
		return 1;
	int unit = s->diag[0] == 'U';
	if (s->uplo[0] == 'U') {
		int down = s->m > s->n ? s->m - s->n : 0;
		return unit ? i - down < j : i - down <= j;
	}
	int right = s->n > s->m ? s->n - s->m : 0;
	return unit ? i + right > j : i + right >= j;
}

/* The matrix with leading dimension lda[1] into which process from's with lda[0] was received. */
static void received(const struct step *s, void *a, int from)
{
	for (int j = 0; j < s->n; j++)
		for (int i = 0; i < s->m; i++)
			if (belongs(s, i, j)) {
				int re, im;
				element(s->type, from, s->number, (long)j * s->lda[0] + i, &re, &im);
				store(s->type, a, (long)j * s->lda[1] + i, re, im);
			}
}

static void same(const struct step *s, const void *a, const void *b, size_t bytes, const char *what)
{
	if (memcmp(a, b, bytes) == 0)
		return;
	size_t at = 0;
	while (((const char *)a)[at] == ((const char *)b)[at])
		at++;
	fprintf(stderr, "{%d,%d} step %d, %s, type %c, %d x %d, lda %d and %d, scope %s, top '%s', uplo %s, diag %s, "
			"general %d: byte %zu differs\n", myrow, mycol, s->number, what, letters[s->type], s->m, s->n,
			s->lda[0], s->lda[1], s->scope, s->top, s->uplo, s->diag, s->general, at);
	Cblacs_abort(context, 9);
}

#define BY_TYPE(call, ...) \
	switch (s->type) { \
	case INT: Ci##call(__VA_ARGS__); break; \
	case SINGLE: Cs##call(__VA_ARGS__); break; \
	case DOUBLE: Cd##call(__VA_ARGS__); break; \
	case COMPLEX: Cc##call(__VA_ARGS__); break; \
	default: Cz##call(__VA_ARGS__); \
	}

static long room(const struct step *s, int side)
{
	return (long)s->lda[side] * s->n;
}

static int scope_size(char scope)
{
	return scope == 'R' ? npcol : scope == 'C' ? nprow : nprow * npcol;
}

static int scope_member(char scope, int index)
{
	return scope == 'R' ? myrow * npcol + index : scope == 'C' ? index * npcol + mycol : index;
}

static int scope_own(char scope)
{
	return scope == 'R' ? mycol : scope == 'C' ? myrow : me;
}

static void exchange(const struct step *s)
{
	int all = nprow * npcol, by = draw(all), to = (me + by) % all, from = (me + all - by) % all;
	size_t bytes = room(s, 1) * sizes[s->type];
	void *a = filled(s->type, me, s->number, room(s, 0));
	int idle = draw(3) == 0;
	CHECK(Cblacs_pnum(context, to / npcol, to % npcol) == to);
	if (s->general) {
		BY_TYPE(gesd2d, context, s->m, s->n, a, s->lda[0], to / npcol, to % npcol)
	} else {
		BY_TYPE(trsd2d, context, s->uplo, s->diag, s->m, s->n, a, s->lda[0], to / npcol, to % npcol)
	}
	memset(a, 0xee, room(s, 0) * sizes[s->type]);
	if (idle)
		Cblacs_barrier(context, "A");
	free(a);
	a = filled(s->type, 77, s->number, room(s, 1));
	void *expected = filled(s->type, 77, s->number, room(s, 1));
	received(s, expected, from);
	if (s->general) {
		BY_TYPE(gerv2d, context, s->m, s->n, a, s->lda[1], from / npcol, from % npcol)
	} else {
		BY_TYPE(trrv2d, context, s->uplo, s->diag, s->m, s->n, a, s->lda[1], from / npcol, from % npcol)
	}
	same(s, a, expected, bytes, "send and receive");
	free(a);
	free(expected);
}

static void receive_unlike(const struct step *s, int from, int m, int n, int lda)
{
	long elements = (long)lda * n, at = 0;
	void *a = filled(s->type, 77, s->number, elements);
	void *expected = filled(s->type, 77, s->number, elements);
	for (int j = 0; j < s->n; j++)
		for (int i = 0; i < s->m; i++, at++) {
			int re, im;
			element(s->type, from, s->number, (long)j * s->lda[0] + i, &re, &im);
			store(s->type, expected, at / m * lda + at % m, re, im);
		}
	BY_TYPE(gerv2d, context, m, n, a, lda, from / npcol, from % npcol)
	same(s, a, expected, elements * sizes[s->type], "send and receive of another size");
	free(a);
	free(expected);
}

/* The receiver's matrix has rows of its own and more columns: it is filled as far as the message goes. Half of the
 * times, who can receives first. */
static void exchange_unlike(const struct step *s)
{
	int all = nprow * npcol, by = draw(all), to = (me + by) % all, from = (me + all - by) % all;
	int m = 1 + draw(2) * draw(2000), lda = m + draw(2), n = (int)((long)s->m * s->n / m) + 1 + draw(3);
	/* Of those who send in a circle, the first has nobody before it. */
	int early = draw(2) && me > from;
	if (early)
		receive_unlike(s, from, m, n, lda);
	void *a = filled(s->type, me, s->number, room(s, 0));
	BY_TYPE(gesd2d, context, s->m, s->n, a, s->lda[0], to / npcol, to % npcol)
	free(a);
	if (!early)
		receive_unlike(s, from, m, n, lda);
}

static void broadcast(const struct step *s)
{
	int root = draw(scope_size('A')) % scope_size(s->scope[0]);
	int source = scope_member(s->scope[0], root), own = root == scope_own(s->scope[0]);
	void *a = filled(s->type, own ? me : 77, s->number, room(s, own ? 0 : 1));
	void *expected = filled(s->type, own ? me : 77, s->number, room(s, own ? 0 : 1));
	if (!own)
		received(s, expected, source);
	int r = source / npcol, c = source % npcol;
	if (own && s->general) {
		BY_TYPE(gebs2d, context, s->scope, s->top, s->m, s->n, a, s->lda[0])
	} else if (own) {
		BY_TYPE(trbs2d, context, s->scope, s->top, s->uplo, s->diag, s->m, s->n, a, s->lda[0])
	} else if (s->general) {
		BY_TYPE(gebr2d, context, s->scope, s->top, s->m, s->n, a, s->lda[1], r, c)
	} else {
		BY_TYPE(trbr2d, context, s->scope, s->top, s->uplo, s->diag, s->m, s->n, a, s->lda[1], r, c)
	}
	same(s, a, expected, room(s, own ? 0 : 1) * sizes[s->type], "broadcast");
	free(a);
	free(expected);
}

static int size_of(int re, int im)
{
	return abs(re) + abs(im);
}

static void combine(const struct step *s)
{
	int operation = draw(3), located = draw(2), all = draw(2);
	int n = scope_size(s->scope[0]), destination = draw(scope_size('A')) % n;
	int first = all ? 0 : destination, target = scope_member(s->scope[0], destination);
	int rdest = all ? -1 : target / npcol, cdest = all ? -1 : target % npcol;
	long coordinates = (long)s->lda[1] * s->n;
	void *a = filled(s->type, me, s->number, room(s, 0));
	void *expected = filled(s->type, me, s->number, room(s, 0));
	int *ra = calloc(2 * coordinates + 1, sizeof *ra), *ca = ra + coordinates;
	int *expected_ra = calloc(2 * coordinates + 1, sizeof *ra), *expected_ca = expected_ra + coordinates;
	CHECK(ra && expected_ra);
	if (all || destination == scope_own(s->scope[0]))
		for (int j = 0; j < s->n; j++)
			for (int i = 0; i < s->m; i++) {
				long at = (long)j * s->lda[0] + i;
				int re = 0, im = 0, found = 0;
				for (int k = 0; k < n; k++) {
					int process = scope_member(s->scope[0], (first + k) % n), r, m;
					element(s->type, process, s->number, at, &r, &m);
					if (operation == 0) {
						re += r;
						im += m;
						continue;
					}
					int more = size_of(r, m) - size_of(re, im);
					int tie = !located && more == 0 && (r > re || (r == re && m > im));
					if (k == 0 || (operation == 1 ? more > 0 : more < 0) || tie) {
						re = r;
						im = m;
						found = process;
					}
				}
				store(s->type, expected, at, re, im);
				expected_ra[(long)j * s->lda[1] + i] = found / npcol;
				expected_ca[(long)j * s->lda[1] + i] = found % npcol;
			}
	if (operation == 0 || !located)
		memset(expected_ra, 0, 2 * coordinates * sizeof *ra);
	int ldia = located ? s->lda[1] : -1;
	if (operation == 0) {
		BY_TYPE(gsum2d, context, s->scope, s->top, s->m, s->n, a, s->lda[0], rdest, cdest)
	} else if (operation == 1) {
		BY_TYPE(gamx2d, context, s->scope, s->top, s->m, s->n, a, s->lda[0], ra, ca, ldia, rdest, cdest)
	} else {
		BY_TYPE(gamn2d, context, s->scope, s->top, s->m, s->n, a, s->lda[0], ra, ca, ldia, rdest, cdest)
	}
	same(s, a, expected, room(s, 0) * sizes[s->type], "combine");
	same(s, ra, expected_ra, 2 * coordinates * sizeof *ra, "coordinates of a combine");
	free(a);
	free(expected);
	free(ra);
	free(expected_ra);
}

static void one(struct step *s, int number, int most)
{
	s->number = number;
	s->type = draw(TYPES);
	s->m = draw(most + 1);
	s->n = draw(most + 1);
	if (draw(4) == 0)
		s->m = draw(3);
	s->lda[0] = s->m + draw(2) * draw(4);
	s->lda[1] = s->m + draw(2) * draw(4);
	s->lda[0] += s->lda[0] == 0;
	s->lda[1] += s->lda[1] == 0;
	s->scope[0] = "RCA"[draw(3)];
	s->top[0] = tops[draw(sizeof tops - 1)];
	s->uplo[0] = "UL"[draw(2)];
	s->diag[0] = "UN"[draw(2)];
	s->general = draw(2);
	switch (draw(4)) {
	case 0: exchange(s); break;
	case 3: exchange_unlike(s); break;
	case 1: broadcast(s); break;
	default: combine(s);
	}
}

int main(int argc, char **argv)
{
	int rank, size, what[] = {11, 12, 13, 14};
	CHECK(argc == 5);
	int rounds = atoi(argv[3]), most = atoi(argv[4]);
	Cblacs_pinfo(&rank, &size);
	CHECK(atoi(argv[1]) * atoi(argv[2]) == size);
	Cblacs_get(-1, 0, &context);
	Cblacs_gridinit(&context, size % 2 ? "C" : "R", atoi(argv[1]), atoi(argv[2]));
	Cblacs_gridinfo(context, &nprow, &npcol, &myrow, &mycol);
	me = Cblacs_pnum(context, myrow, mycol);
	for (int round = 0; round < rounds; round++) {
		struct step s = {.scope = "?", .top = "?", .uplo = "?", .diag = "?"};
		seed = round * 1000003ULL + 7;
		for (int i = 0; i < 4; i++) {
			int value = 1 + draw(4);
			Cblacs_set(context, what[i], &value);
		}
		int coherent = draw(2), got;
		Cblacs_set(context, 16, &coherent);
		Cblacs_get(context, 16, &got);
		CHECK(got == coherent);
		one(&s, round, most);
	}
	Cblacs_barrier(context, "A");
	if (rank == 0)
		printf("ok oracle\n");
	fflush(stdout);
	Cblacs_gridexit(context);
	Cblacs_exit(0);
	return 0;
}
