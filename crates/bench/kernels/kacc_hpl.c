/* A matrix factored as HPL does it: blocks of columns in turn on the ranks, partial pivoting, right-looking, the
 * right-hand side as one more column; each panel goes to all by a broadcast. By WHAT, see kacc_app.h, and by the
 * matrix' order; HOW is
 *
 *   bcast          MPI_Bcast of each panel, then the update with it
 *   ibcast         look-ahead of 1: the owner of the next panel updates and factors that first, its MPI_Ibcast begins,
 *                  and all update what is left with the present one before MPI_Wait
 *   ibcast-tested  the same with an MPI_Test after each few columns of the update: so HPL goes on with its broadcasts
 *
 * What is measured ends when the matrix is factored. Then the equations are solved, and the solution checked as HPL
 * does it. */
#include "kacc_app.h"
#include <float.h>

/* Columns of a block, and those of an update from one test to the next. */
#ifndef BLOCK
#define BLOCK 32
#endif
enum { STRIP = 8 };

enum { BCAST, IBCAST, IBCAST_TESTED, WAYS };

static const char *const ways[WAYS] = {"bcast", "ibcast", "ibcast-tested"};

/* HPL lets a solution pass whose residual is so many times what rounding explains. */
#define RESIDUAL_MOST 16.0

/* This rank's columns, each of `lead` numbers of which the last are no rows' and 0. Of the whole matrix' columns the
 * one numbered `order` is the right-hand side. */
static int order, panels, columns, lead;
static double *matrix;

/* What is broadcast. */
struct panel {
    int begin, width; /* its columns */
    int numbers;      /* in all */
    double *rows;     /* those that the rows from `begin` on were exchanged with */
    double *diagonal; /* the block that has the diagonal, by columns: of it the lower triangle, whose diagonal is 1 */
    double *below;    /* what is below that: by LANES rows, and in these by columns */
};
/* Of the panel that updates are made with and of the next one. */
static double *panel_memory[2];

static double app_iterations(void) {
    return NAN;
}

static double *column_at(int column) {
    return matrix + (size_t)column * (size_t)lead;
}

/* How many columns of this rank are before this one of the matrix. */
static int columns_before(int column) {
    int block = column / BLOCK;
    int whole = block > bench_rank ? (block - bench_rank - 1) / bench_ranks + 1 : 0;
    return whole * BLOCK + (block % bench_ranks == bench_rank ? column % BLOCK : 0);
}

/* Which column of the matrix one of this rank's is. */
static int whole_column(int column) {
    return (column / BLOCK * bench_ranks + bench_rank) * BLOCK + column % BLOCK;
}

static int owner(int panel) {
    return panel % bench_ranks;
}

static struct panel panel_of(int number) {
    struct panel panel;
    panel.begin = number * BLOCK;
    panel.width = order - panel.begin < BLOCK ? order - panel.begin : BLOCK;
    panel.rows = panel_memory[number % 2];
    panel.diagonal = panel.rows + panel.width;
    panel.below = panel.diagonal + panel.width * panel.width;
    panel.numbers = panel.width * (1 + panel.width + lanes_full(order - panel.begin - panel.width));
    return panel;
}

static void app_make(size_t size) {
    order = (int)size;
    panels = (order + BLOCK - 1) / BLOCK;
    columns = columns_before(order + 1);
    lead = lanes_full(order) + LANES;
    matrix = bench_memory((size_t)columns * (size_t)lead * sizeof *matrix);
    for (int i = 0; i < 2; i++)
        panel_memory[i] = bench_memory(BLOCK * (size_t)(1 + BLOCK + lead) * sizeof *matrix);
}

static void app_free(void) {
    free(matrix);
    for (int i = 0; i < 2; i++)
        free(panel_memory[i]);
}

static double element(int row, int column) {
    return app_random((uint64_t)column * (uint64_t)order + (uint64_t)row);
}

static void fill(void) {
    for (int j = 0; j < columns; j++) {
        double *column = column_at(j);
        memset(column, 0, (size_t)lead * sizeof *column);
        for (int i = 0; i < order; i++)
            column[i] = element(i, whole_column(j));
    }
}

static void exchange(double *a, double *b) {
    double kept = *a;
    *a = *b;
    *b = kept;
}

/* The rest of a panel's columns, after the pivot's. */
static void eliminate(const double *pivots, double *column, int from) {
    double factor = column[from - 1];
    for (int i = from; i < order; i += LANES)
        LANES_AT(column + i) = LANES_AT(column + i) - factor * LANES_AT(pivots + i);
}

/* Factors columns of this rank's, from row `begin` on. */
static void factor_columns(const struct panel *panel, int first) {
    for (int k = 0; k < panel->width; k++) {
        double *pivots = column_at(first + k);
        int diagonal = panel->begin + k, greatest = diagonal;
        for (int i = diagonal; i < order; i++)
            if (fabs(pivots[i]) > fabs(pivots[greatest]))
                greatest = i;
        panel->rows[k] = greatest;
        for (int j = 0; j < panel->width; j++)
            exchange(column_at(first + j) + diagonal, column_at(first + j) + greatest);
        for (int i = diagonal + 1; i < order; i++)
            pivots[i] /= pivots[diagonal];
        for (int j = k + 1; j < panel->width; j++)
            eliminate(pivots, column_at(first + j), diagonal + 1);
    }
}

/* Factors a panel of this rank's, as it is broadcast. */
static void factor(const struct panel *panel) {
    int first = columns_before(panel->begin), end = panel->begin + panel->width;
    factor_columns(panel, first);
    for (int k = 0; k < panel->width; k++) {
        const double *column = column_at(first + k);
        memcpy(panel->diagonal + k * panel->width, column + panel->begin, (size_t)panel->width * sizeof *column);
        for (int i = end; i < order; i += LANES)
            LANES_AT(panel->below + (size_t)(i - end) * (size_t)panel->width + k * LANES) = LANES_AT(column + i);
    }
}

/* The rows of the panel's own block in a column: exchanged, and divided by the triangle. */
static void update_top(const struct panel *panel, double *column) {
    double *top = column + panel->begin;
    for (int k = 0; k < panel->width; k++)
        exchange(top + k, column + (int)panel->rows[k]);
    for (int k = 0; k < panel->width; k++) {
        const double *below = panel->diagonal + k * panel->width;
        for (int i = k + 1; i < panel->width; i++)
            top[i] -= below[i] * top[k];
    }
}

/* The rows below in a column. */
static void update_one(const struct panel *panel, double *column) {
    const double *from = panel->below, *top = column + panel->begin;
    for (int i = panel->begin + panel->width; i < order; i += LANES) {
        lanes all = LANES_AT(column + i);
        for (int k = 0; k < panel->width; k++, from += LANES)
            all -= LANES_AT(from) * top[k];
        LANES_AT(column + i) = all;
    }
}

/* The rows below in four columns, which read the panel once. */
static void update_four(const struct panel *panel, double *column) {
    double *a = column, *b = a + lead, *c = b + lead, *d = c + lead;
    const double *from = panel->below;
    int begin = panel->begin;
    for (int i = begin + panel->width; i < order; i += LANES) {
        lanes in_a = LANES_AT(a + i), in_b = LANES_AT(b + i), in_c = LANES_AT(c + i), in_d = LANES_AT(d + i);
        for (int k = begin; k < begin + panel->width; k++, from += LANES) {
            lanes factors = LANES_AT(from);
            in_a -= factors * a[k];
            in_b -= factors * b[k];
            in_c -= factors * c[k];
            in_d -= factors * d[k];
        }
        LANES_AT(a + i) = in_a;
        LANES_AT(b + i) = in_b;
        LANES_AT(c + i) = in_c;
        LANES_AT(d + i) = in_d;
    }
}

static void update_strip(const struct panel *panel, int from, int to) {
    for (int j = from; j < to; j++)
        update_top(panel, column_at(j));
    for (; from + 4 <= to; from += 4)
        update_four(panel, column_at(from));
    for (; from < to; from++)
        update_one(panel, column_at(from));
}

/* Columns of this rank's from `from` to before `to`, with a panel; with tests of a request, if there is one. */
static void update(const struct panel *panel, int from, int to, MPI_Request *tested) {
    for (int flag; from < to; from += STRIP) {
        update_strip(panel, from, from + STRIP < to ? from + STRIP : to);
        if (tested)
            MPI_Test(tested, &flag, MPI_STATUS_IGNORE);
    }
}

static void factor_blocking(void) {
    for (int k = 0; k < panels; k++) {
        struct panel panel = panel_of(k);
        if (owner(k) == bench_rank)
            factor(&panel);
        MPI_Bcast(panel.rows, panel.numbers, MPI_DOUBLE, owner(k), BENCH_WORLD);
        update(&panel, columns_before(panel.begin + panel.width), columns, NULL);
    }
}

static void factor_ahead(int tested) {
    struct panel panel = panel_of(0), next = panel;
    if (owner(0) == bench_rank)
        factor(&panel);
    MPI_Bcast(panel.rows, panel.numbers, MPI_DOUBLE, owner(0), BENCH_WORLD);
    for (int k = 0; k < panels; k++, panel = next) {
        MPI_Request request = MPI_REQUEST_NULL;
        int from = columns_before(panel.begin + panel.width);
        if (k + 1 < panels) {
            next = panel_of(k + 1);
            if (owner(k + 1) == bench_rank) {
                update(&panel, from, from + next.width, NULL);
                factor(&next);
                from += next.width;
            }
            MPI_Ibcast(next.rows, next.numbers, MPI_DOUBLE, owner(k + 1), BENCH_WORLD, &request);
        }
        update(&panel, from, columns, tested ? &request : NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The solution, on all ranks, where the factored right-hand side was. */
static void solve(double *x) {
    int last = order / BLOCK % bench_ranks;
    if (last == bench_rank)
        memcpy(x, column_at(columns_before(order)), (size_t)order * sizeof *x);
    MPI_Bcast(x, order, MPI_DOUBLE, last, BENCH_WORLD);
    for (int k = panels - 1; k >= 0; k--) {
        struct panel panel = panel_of(k);
        for (int j = panel.begin + panel.width - 1; j >= panel.begin && owner(k) == bench_rank; j--) {
            const double *column = column_at(columns_before(j));
            x[j] /= column[j];
            for (int i = 0; i < j; i++)
                x[i] -= column[i] * x[j];
        }
        MPI_Bcast(x, panel.begin + panel.width, MPI_DOUBLE, owner(k), BENCH_WORLD);
    }
}

static double greatest(const double *numbers) {
    double most = 0;
    for (int i = 0; i < order; i++)
        /* What is not a number is taken, and stays. */
        if (!isnan(most) && !(fabs(numbers[i]) <= most))
            most = fabs(numbers[i]);
    return most;
}

/* That A x - b is as small as rounding explains. */
static void check(void) {
    double *x = bench_memory(3 * (size_t)order * sizeof *x), *product = x + order, *size = product + order, most;
    solve(x);
    memset(product, 0, 2 * (size_t)order * sizeof *product);
    for (int j = 0; j < columns; j++) {
        int column = whole_column(j);
        for (int i = 0; i < order; i++) {
            double a = element(i, column);
            product[i] += column < order ? a * x[column] : -a;
            size[i] += column < order ? fabs(a) : 0;
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, product, 2 * order, MPI_DOUBLE, MPI_SUM, BENCH_WORLD);
    /* The right-hand side's numbers are at most 1/2. */
    most = RESIDUAL_MOST * DBL_EPSILON * order * (greatest(size) * greatest(x) + 0.5);
    /* Also what is not a number is not small. */
    if (!(greatest(product) <= most))
        bench_fail("the solution's residual is too large");
    free(x);
}

static double app_solve(int way) {
    double seconds;
    fill();
    MPI_Barrier(BENCH_WORLD);
    seconds = bench_now();
    if (way == BCAST)
        factor_blocking();
    else
        factor_ahead(way == IBCAST_TESTED);
    seconds = bench_now() - seconds;
    check();
    return seconds;
}

int main(int argc, char **argv) {
    return app_main(argc, argv, ways, WAYS);
}
