/* BLACS: grids of processes, and matrices that are sent, broadcast and combined between them.
 *
 * The C interface of Yamabiko's libblacs.  There is no standard header; these are the prototypes that
 * programs usually write themselves.  Fortran calls the same functions without the C, in lower case.
 *
 * A system context is a handle from Cblacs_get(-1, 0, &handle), or from Csys2blacs_handle, which with its counterpart
 * is declared when mpi.h was included before.  Letters: scope R, C, A; top blank, I, D, S, H, F, M, T, 1 to 9; uplo U, L; diag
 * U, N.  A is column-major with leading dimension lda; where that is less than m, and there is more than one column, BLACS warns and
 * takes m.
 *
 * The tr functions move a trapezoid: of the upper one with m > n the triangle is at the bottom, and its diagonal ends at the last element; of the
 * lower one with n > m it is at the right, and its diagonal ends there too; else the diagonal begins at the first element. With diag
 * U the diagonal itself is neither sent nor written.
 *
 * Where uplo or diag is another letter BLACS warns and takes L, or N; negative m and n count as 0, with a warning. Any order but C is R.
 *
 * Sends return before their receive is called, however many there are: what has not been received takes memory of the sender.
 * A receive takes a message that is shorter than its matrix, or of another type; a longer one is an error.
 *
 * A process may be in 64 grids at a time.  The 65th is an error that says so and ends the job; Cblacs_gridexit frees one.
 */
#ifndef BLACS_H
#define BLACS_H

#ifdef __cplusplus
extern "C" {
#endif

void Cblacs_pinfo(int *mypnum, int *nprocs);
void Cblacs_setup(int *mypnum, int *nprocs);
/* what: 0 system context, 1 range of message ids (two values), 2 debug level, 10 system context of the grid's processes,
 * 11 and 12 rings and branches of broadcasts, 13 and 14 of combines, 15 repeatable, 16 coherent; 11 to 16 can be set.
 * Coherent: all processes that get the result of a combine get the same bits. Without it that may fail with topology "H", as where some elements of
 * a gamx2d or gamn2d are no numbers (NaN). */
void Cblacs_get(int context, int what, int *value);
void Cblacs_set(int context, int what, const int *value);

/* The context comes in as a system context and goes out as a context, -1 in a process outside the grid. */
void Cblacs_gridinit(int *context, const char *order, int nprow, int npcol);
void Cblacs_gridmap(int *context, const int *usermap, int ldumap, int nprow, int npcol);
void Cblacs_gridinfo(int context, int *nprow, int *npcol, int *myrow, int *mycol);
void Cblacs_gridexit(int context);
/* Processes by number: row by row of the grid, however that was mapped. */
int Cblacs_pnum(int context, int prow, int pcol);
void Cblacs_pcoord(int context, int pnum, int *prow, int *pcol);

void Cblacs_barrier(int context, const char *scope);
void Cblacs_freebuff(int context, int wait);
void Cblacs_abort(int context, int error);
/* Waits until all that was sent has been received. Ends MPI as well, whoever has started it, unless not_done isn't 0: then that is left to
 * MPI_Finalize. A program that uses FMPL too calls fmpl_finalize before. */
void Cblacs_exit(int not_done);

void Cfree_blacs_system_handle(int handle);
#ifdef MPI_VERSION
int Csys2blacs_handle(MPI_Comm comm);
MPI_Comm Cblacs2sys_handle(int handle);
#endif

double Cdwalltime00(void);
double Cdcputime00(void);
int Cksendid(int context, int rdest, int cdest);
int Ckrecvid(int context, int rsrc, int csrc);
int Ckbsid(int context, const char *scope);
int Ckbrid(int context, const char *scope, int rsrc, int csrc);

/* For x in i (int), s (float), d (double), c and z (complex: pairs of float, of double): */
#define BLACS_FUNCTIONS_(x, T) \
	/* send, and receive */ \
	void C##x##gesd2d(int context, int m, int n, const T *a, int lda, int rdest, int cdest); \
	void C##x##gerv2d(int context, int m, int n, T *a, int lda, int rsrc, int csrc); \
	void C##x##trsd2d(int context, const char *uplo, const char *diag, int m, int n, const T *a, int lda, \
			int rdest, int cdest); \
	void C##x##trrv2d(int context, const char *uplo, const char *diag, int m, int n, T *a, int lda, \
			int rsrc, int csrc); \
	/* broadcast, and receive one */ \
	void C##x##gebs2d(int context, const char *scope, const char *top, int m, int n, const T *a, int lda); \
	void C##x##gebr2d(int context, const char *scope, const char *top, int m, int n, T *a, int lda, int rsrc, \
			int csrc); \
	void C##x##trbs2d(int context, const char *scope, const char *top, const char *uplo, const char *diag, \
			int m, int n, const T *a, int lda); \
	void C##x##trbr2d(int context, const char *scope, const char *top, const char *uplo, const char *diag, \
			int m, int n, T *a, int lda, int rsrc, int csrc); \
	/* sum, greatest and least absolute value; rdest or cdest -1: all get it; ldia -1: ra and ca are not used */ \
	void C##x##gsum2d(int context, const char *scope, const char *top, int m, int n, T *a, int lda, int rdest, \
			int cdest); \
	void C##x##gamx2d(int context, const char *scope, const char *top, int m, int n, T *a, int lda, int *ra, \
			int *ca, int ldia, int rdest, int cdest); \
	void C##x##gamn2d(int context, const char *scope, const char *top, int m, int n, T *a, int lda, int *ra, \
			int *ca, int ldia, int rdest, int cdest);

BLACS_FUNCTIONS_(i, int)
BLACS_FUNCTIONS_(s, float)
BLACS_FUNCTIONS_(d, double)
BLACS_FUNCTIONS_(c, float)
BLACS_FUNCTIONS_(z, double)

#undef BLACS_FUNCTIONS_

#ifdef __cplusplus
}
#endif

#endif
