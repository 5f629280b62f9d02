/* A system of linear equations, solved by conjugate gradients: Poisson's equation on a square of edge x edge points,
 * each with four neighbours, rows of points divided among the ranks. By WHAT, see kacc_app.h, and by edge; HOW is
 *
 *   classical           two MPI_Allreduce in each iteration, of a number each, one after the other
 *   pipelined           an MPI_Iallreduce of two numbers in each, behind the product of matrix and vector and the
 *                       exchange with neighbours that this takes (P. Ghysels, W. Vanroose, Hiding global
 *                       synchronization latency in the preconditioned conjugate gradient algorithm, Parallel
 *                       Computing 40, 2014; without preconditioner)
 *   pipelined-blocking  the same with MPI_Allreduce in its place: what of the gain is not due to the overlap
 *
 * The pipelined algorithm updates six vectors in each iteration, the classical one three. */
#include "kacc_app.h"

enum { CLASSICAL, PIPELINED, PIPELINED_BLOCKING, WAYS };

static const char *const ways[WAYS] = {"classical", "pipelined", "pipelined-blocking"};

/* The residual is to become so small, of what it was: its square. */
#define SMALL 1e-12
/* The residual of the solution may be so much greater than the one that the iterations go by: the square. */
#define SLACK 1.21
/* An algorithm may take so much more or fewer iterations than the classical one, as a share and besides. */
#define MORE_SHARE 0.05
enum { MORE_BESIDES = 2 };
/* So many iterations are allowed for each point of an edge, and besides. A test says less. */
#ifndef ITERATIONS_FOR_EACH
#define ITERATIONS_FOR_EACH 10
#endif
enum { ITERATIONS_BESIDES = 3 };

/* This rank's part: rows of `stride` numbers, of which `edge` are points and the others 0. Each vector has a row of a
 * neighbour's before the first and after the last, which is 0 where there is none. */
static int edge, stride, rows, first_row, above, below;
static double *rhs, *x, *r, *p, *q, *s, *w, *z;
static int iterations, iterations_classical;

static double app_iterations(void) {
    return iterations;
}

/* How many numbers this rank's part of a vector has. */
static size_t part(void) {
    return (size_t)rows * (size_t)stride;
}

/* With the neighbours' rows, and as much as a product looks beyond. */
static size_t part_around(void) {
    return ((size_t)rows + 2) * (size_t)stride + 2 * LANES;
}

static double *vector_begin(double *vector) {
    return vector - stride - LANES;
}

static double *vector_new(void) {
    double *memory = bench_memory(part_around() * sizeof *memory);
    memset(memory, 0, part_around() * sizeof *memory);
    return memory + stride + LANES;
}

/* How many rows are those of ranks before this one. The first ranks have one more, if they don't come out even. */
static int rows_before(int rank) {
    int more = edge % bench_ranks;
    return rank * (edge / bench_ranks) + (rank < more ? rank : more);
}

static int neighbour(int rank) {
    int is_there = rank >= 0 && rank < bench_ranks && rows_before(rank) < rows_before(rank + 1);
    return is_there && rows > 0 ? rank : MPI_PROC_NULL;
}

static void app_make(size_t size) {
    double **const vectors[] = {&rhs, &x, &r, &p, &q, &s, &w, &z};
    edge = (int)size;
    stride = lanes_full(edge + 1);
    first_row = rows_before(bench_rank);
    rows = rows_before(bench_rank + 1) - first_row;
    above = neighbour(bench_rank - 1);
    below = neighbour(bench_rank + 1);
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++)
        *vectors[v] = vector_new();
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < edge; column++)
            rhs[(size_t)row * (size_t)stride + (size_t)column] =
                app_random((uint64_t)(first_row + row) * (uint64_t)edge + (uint64_t)column);
    iterations_classical = 0;
    app_solve(CLASSICAL);
    iterations_classical = iterations;
}

static void app_free(void) {
    double *const vectors[] = {rhs, x, r, p, q, s, w, z};
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++)
        free(vector_begin(vectors[v]));
}

static double sum(const lanes *all) {
    double sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += (*all)[i];
    return sum;
}

/* This rank's part of a product of vectors. */
static double dot(const double *a, const double *b) {
    lanes all = {0};
    for (size_t i = 0; i < part(); i += LANES)
        all += LANES_AT(a + i) * LANES_AT(b + i);
    return sum(&all);
}

static void reduce(double *numbers, int count) {
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_SUM, BENCH_WORLD);
}

/* Rows from `from` to before `to` of the matrix times the vector; their part of (vector, product). */
static double multiply_rows(const double *vector, double *product, int from, int to) {
    lanes all = {0};
    for (int row = from; row < to; row++) {
        const double *in = vector + (ptrdiff_t)row * stride;
        double *out = product + (ptrdiff_t)row * stride;
        for (int i = 0; i < stride; i += LANES) {
            lanes now = 4 * LANES_AT(in + i) - LANES_AT(in + i - 1) - LANES_AT(in + i + 1) -
                        LANES_AT(in + i - stride) - LANES_AT(in + i + stride);
            LANES_AT(out + i) = now;
            /* Where there is no point, the vector is 0. */
            all += now * LANES_AT(in + i);
        }
        for (int i = edge; i < stride; i++)
            out[i] = 0;
    }
    return sum(&all);
}

/* The matrix times the vector; this rank's part of (vector, product). What needs no neighbour is computed while the
 * neighbours' rows come. */
static double multiply(double *vector, double *product) {
    MPI_Request requests[4];
    double all;
    double *last = vector + (ptrdiff_t)(rows - 1) * stride;
    MPI_Irecv(vector - stride, edge, MPI_DOUBLE, above, BENCH_TAG, BENCH_WORLD, &requests[0]);
    MPI_Irecv(last + stride, edge, MPI_DOUBLE, below, BENCH_TAG, BENCH_WORLD, &requests[1]);
    MPI_Isend(vector, edge, MPI_DOUBLE, above, BENCH_TAG, BENCH_WORLD, &requests[2]);
    MPI_Isend(last, edge, MPI_DOUBLE, below, BENCH_TAG, BENCH_WORLD, &requests[3]);
    all = multiply_rows(vector, product, 1, rows - 1);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    all += multiply_rows(vector, product, 0, rows < 1 ? 0 : 1);
    if (rows > 1)
        all += multiply_rows(vector, product, rows - 1, rows);
    return all;
}

/* Counts an iteration. */
static void iterate(void) {
    if (iterations++ == ITERATIONS_FOR_EACH * edge + ITERATIONS_BESIDES)
        bench_fail("the iterations do not converge");
}

/* x += alpha p, r -= alpha q; this rank's part of (r, r). */
static double classical_step(double alpha) {
    lanes rr = {0};
    for (size_t i = 0; i < part(); i += LANES) {
        lanes now = LANES_AT(r + i) - alpha * LANES_AT(q + i);
        LANES_AT(x + i) = LANES_AT(x + i) + alpha * LANES_AT(p + i);
        LANES_AT(r + i) = now;
        rr += now * now;
    }
    return sum(&rr);
}

/* From x = 0 and r = b. */
static void classical(void) {
    double rr = dot(r, r), stop;
    reduce(&rr, 1);
    stop = SMALL * rr;
    memcpy(p, r, part() * sizeof *p);
    while (rr > stop) {
        double pq, before = rr;
        iterate();
        pq = multiply(p, q);
        reduce(&pq, 1);
        rr = classical_step(rr / pq);
        reduce(&rr, 1);
        for (size_t i = 0; i < part(); i += LANES)
            LANES_AT(p + i) = LANES_AT(r + i) + rr / before * LANES_AT(p + i);
    }
}

/* z = q + beta z, s = w + beta s, p = r + beta p, x += alpha p, r -= alpha s, w -= alpha z; this rank's part of (r, r)
 * and of (w, r). */
static void pipelined_step(double alpha, double beta, double products[2]) {
    lanes rr = {0}, wr = {0};
    for (size_t i = 0; i < part(); i += LANES) {
        lanes zi = LANES_AT(q + i) + beta * LANES_AT(z + i);
        lanes si = LANES_AT(w + i) + beta * LANES_AT(s + i);
        lanes pi = LANES_AT(r + i) + beta * LANES_AT(p + i);
        lanes ri = LANES_AT(r + i) - alpha * si;
        lanes wi = LANES_AT(w + i) - alpha * zi;
        LANES_AT(x + i) = LANES_AT(x + i) + alpha * pi;
        LANES_AT(z + i) = zi;
        LANES_AT(s + i) = si;
        LANES_AT(p + i) = pi;
        LANES_AT(r + i) = ri;
        LANES_AT(w + i) = wi;
        rr += ri * ri;
        wr += wi * ri;
    }
    products[0] = sum(&rr);
    products[1] = sum(&wr);
}

/* q = A w, while or after the products are summed up over all ranks. */
static void pipelined_sums(int overlapped, double products[2]) {
    MPI_Request request;
    if (!overlapped) {
        reduce(products, 2);
        multiply(w, q);
        return;
    }
    MPI_Iallreduce(MPI_IN_PLACE, products, 2, MPI_DOUBLE, MPI_SUM, BENCH_WORLD, &request);
    multiply(w, q);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* From x = 0 and r = b. */
static void pipelined(int overlapped) {
    double products[2], alpha = 0, before = 0, stop = 0;
    products[0] = dot(r, r);
    products[1] = multiply(r, w);
    for (;;) {
        double rr, beta;
        pipelined_sums(overlapped, products);
        rr = products[0];
        if (iterations == 0)
            stop = SMALL * rr;
        if (rr <= stop)
            break;
        beta = iterations == 0 ? 0 : rr / before;
        alpha = rr / (products[1] - (iterations == 0 ? 0 : beta * rr / alpha));
        before = rr;
        iterate();
        pipelined_step(alpha, beta, products);
    }
}

/* That b - A x is as small as it was to become, and that it took about as many iterations as the classical
 * algorithm. */
static void check(void) {
    double off = MORE_SHARE * iterations_classical + MORE_BESIDES;
    double squares[2] = {0, dot(rhs, rhs)};
    multiply(x, q);
    for (size_t i = 0; i < part(); i++)
        squares[0] += (rhs[i] - q[i]) * (rhs[i] - q[i]);
    reduce(squares, 2);
    /* Also what is not a number is not small. */
    if (!(squares[0] <= SLACK * SMALL * squares[1]))
        bench_fail("the solution's residual is too large");
    if (iterations_classical && abs(iterations - iterations_classical) > off)
        bench_fail("the iterations are too many or too few");
}

static double app_solve(int way) {
    double *const zero[] = {x, p, q, s, w, z};
    double seconds;
    for (size_t v = 0; v < sizeof zero / sizeof zero[0]; v++)
        memset(vector_begin(zero[v]), 0, part_around() * sizeof *x);
    memcpy(r, rhs, part() * sizeof *r);
    iterations = 0;
    MPI_Barrier(BENCH_WORLD);
    seconds = bench_now();
    if (way == CLASSICAL)
        classical();
    else
        pipelined(way == PIPELINED);
    seconds = bench_now() - seconds;
    check();
    return seconds;
}

int main(int argc, char **argv) {
    return app_main(argc, argv, ways, WAYS);
}
