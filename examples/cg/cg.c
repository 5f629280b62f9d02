/* Solves a sparse symmetric positive definite system by conjugate gradients.
 *
 *     mpiexec -n 4 ./cg poisson-80.mtx
 *
 * Rank 0 reads the matrix from a Matrix Market file; each rank keeps a block of rows. In every
 * iteration the search direction is gathered on all ranks and two dot products are summed. The
 * right-hand side is made from a known solution, so the error is known, too.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int rows;          /* of the whole matrix */
    int first, mine;   /* this rank's rows */
    int *start;        /* mine + 1 offsets into column and value */
    int *column;
    double *value;
    int *counts, *displacements; /* every rank's rows */
} matrix;

static int rank, ranks;

static void fail(const char *what, const char *file)
{
    fprintf(stderr, "cg: %s: %s\n", file, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        fail("out of memory", "allocation");
    return p;
}

/* Reads the entries on rank 0 and gives them to everybody: row, column and value of each stored
 * one. Returns how many there are. */
static int read_entries(const char *file, int *rows, int **row, int **column, double **value)
{
    int head[2] = {0, 0};
    FILE *f = NULL;
    if (rank == 0) {
        char line[1024];
        int columns;
        f = fopen(file, "r");
        if (!f)
            fail("can't be opened", file);
        if (!fgets(line, sizeof line, f) || strncmp(line, "%%MatrixMarket matrix coordinate real symmetric", 47) != 0)
            fail("is not a symmetric real Matrix Market file in coordinate form", file);
        while (fgets(line, sizeof line, f) && line[0] == '%')
            ;
        if (sscanf(line, "%d %d %d", &head[0], &columns, &head[1]) != 3 || head[0] != columns || head[0] < 1 || head[1] < 1)
            fail("has no valid line of sizes", file);
    }
    MPI_Bcast(head, 2, MPI_INT, 0, MPI_COMM_WORLD);
    *rows = head[0];
    *row = allocate((size_t)head[1], sizeof **row);
    *column = allocate((size_t)head[1], sizeof **column);
    *value = allocate((size_t)head[1], sizeof **value);
    if (rank == 0) {
        for (int i = 0; i < head[1]; i++) {
            if (fscanf(f, "%d %d %lf", &(*row)[i], &(*column)[i], &(*value)[i]) != 3 || (*row)[i] < 1 || (*row)[i] > head[0] ||
                (*column)[i] < 1 || (*column)[i] > (*row)[i])
                fail("has an invalid entry", file);
        }
        fclose(f);
    }
    MPI_Bcast(*row, head[1], MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(*column, head[1], MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(*value, head[1], MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return head[1];
}

static void add(matrix *a, int *filled, int row, int column, double value)
{
    int local = row - a->first;
    if (local < 0 || local >= a->mine)
        return;
    a->column[a->start[local] + filled[local]] = column;
    a->value[a->start[local] + filled[local]] = value;
    filled[local]++;
}

/* Both triangles of this rank's rows, row by row. */
static matrix read_matrix(const char *file)
{
    matrix a;
    int *row, *column;
    double *value;
    int stored = read_entries(file, &a.rows, &row, &column, &value);
    a.counts = allocate((size_t)ranks, sizeof *a.counts);
    a.displacements = allocate((size_t)ranks, sizeof *a.displacements);
    for (int r = 0, at = 0; r < ranks; r++) {
        a.counts[r] = a.rows / ranks + (r < a.rows % ranks);
        a.displacements[r] = at;
        at += a.counts[r];
    }
    a.first = a.displacements[rank];
    a.mine = a.counts[rank];
    a.start = allocate((size_t)a.mine + 1, sizeof *a.start);
    for (int i = 0; i < stored; i++) {
        int r = row[i] - 1 - a.first, c = column[i] - 1 - a.first;
        if (r >= 0 && r < a.mine)
            a.start[r + 1]++;
        if (row[i] != column[i] && c >= 0 && c < a.mine)
            a.start[c + 1]++;
    }
    for (int i = 0; i < a.mine; i++)
        a.start[i + 1] += a.start[i];
    a.column = allocate((size_t)a.start[a.mine], sizeof *a.column);
    a.value = allocate((size_t)a.start[a.mine], sizeof *a.value);
    int *filled = allocate((size_t)a.mine, sizeof *filled);
    for (int i = 0; i < stored; i++) {
        add(&a, filled, row[i] - 1, column[i] - 1, value[i]);
        if (row[i] != column[i])
            add(&a, filled, column[i] - 1, row[i] - 1, value[i]);
    }
    free(filled);
    free(row);
    free(column);
    free(value);
    return a;
}

/* y = A x for this rank's rows; `whole` holds all of x afterwards. */
static void multiply(const matrix *a, const double *x, double *whole, double *y)
{
    MPI_Allgatherv(x, a->mine, MPI_DOUBLE, whole, a->counts, a->displacements, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < a->mine; i++) {
        double sum = 0;
        for (int k = a->start[i]; k < a->start[i + 1]; k++)
            sum += a->value[k] * whole[a->column[k]];
        y[i] = sum;
    }
}

static double dot(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2)
        fail("one argument is needed: a Matrix Market file", argv[0]);
    matrix a = read_matrix(argv[1]);
    size_t n = (size_t)a.mine;
    double *x = allocate(n, sizeof *x), *r = allocate(n, sizeof *r), *p = allocate(n, sizeof *p), *q = allocate(n, sizeof *q);
    double *known = allocate(n, sizeof *known), *whole = allocate((size_t)a.rows, sizeof *whole);

    for (int i = 0; i < a.mine; i++)
        known[i] = 1 + (a.first + i) % 7;
    multiply(&a, known, whole, r); /* the right-hand side, and the first residual, as x is 0 */
    memcpy(p, r, n * sizeof *p);
    double rr = dot(r, r, a.mine), start = rr;
    int iterations = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double time = MPI_Wtime();
    while (rr > 1e-20 * start && iterations < 10 * a.rows) {
        multiply(&a, p, whole, q);
        double alpha = rr / dot(p, q, a.mine);
        for (int i = 0; i < a.mine; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double next = dot(r, r, a.mine), beta = next / rr;
        for (int i = 0; i < a.mine; i++)
            p[i] = r[i] + beta * p[i];
        rr = next;
        iterations++;
    }
    time = MPI_Wtime() - time;

    double error = 0, entries = a.start[a.mine];
    for (int i = 0; i < a.mine; i++)
        error = fmax(error, fabs(x[i] - known[i]));
    MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &entries, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int good = sqrt(rr / start) <= 1e-10 && error < 1e-6;
    if (rank == 0) {
        double work = iterations * (2 * entries + 10.0 * a.rows);
        printf("%d unknowns, %.0f entries, %d ranks\n", a.rows, entries, ranks);
        printf("relative residual %.2e after %d iterations, largest error %.2e\n", sqrt(rr / start), iterations, error);
        printf("%.3f s, %.0f MFLOP/s\n", time, work / time / 1e6);
        if (!good)
            printf("NOT SOLVED\n");
    }
    MPI_Finalize();
    return good ? 0 : 1;
}
