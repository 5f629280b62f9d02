/* BLACS and MPI in one program: grids from MPI communicators, MPI communicators from grids, both kinds of messages at once,
 * and functions of the program that have the names of BLACS' Fortran calls, which BLACS must not run into.
 */
#include "check.h"

/* As the testers of BLACS have them. */
void blacs_pinfo_(int *rank, int *size);
void dgesd2d_(void);

void blacs_pinfo_(int *rank, int *size)
{
	(void)rank;
	(void)size;
	fprintf(stderr, "BLACS called a function of the program\n");
	abort();
}

void dgesd2d_(void)
{
	abort();
}

static int world_rank, world_size;

/* A grid of the odd ranks, made by them alone from a communicator of MPI, backwards. */
static void from_a_communicator(void)
{
	MPI_Comm half;
	MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &half);
	int rank, size, handle = Csys2blacs_handle(half), context = handle, rows, columns, row, column;
	MPI_Comm_rank(half, &rank);
	MPI_Comm_size(half, &size);
	CHECK(handle > 0 && Csys2blacs_handle(half) == handle && Cblacs2sys_handle(handle) == half);
	CHECK(Csys2blacs_handle(MPI_COMM_WORLD) == 0);
	Cblacs_gridinit(&context, "C", 1, size);
	Cblacs_gridinfo(context, &rows, &columns, &row, &column);
	CHECK(rows == 1 && columns == size && row == 0 && column == rank);
	double mine = world_rank, theirs = -1;
	Cdgesd2d(context, 1, 1, &mine, 1, 0, (column + 1) % size);
	MPI_Bcast(&mine, 1, MPI_DOUBLE, 0, half);
	Cdgerv2d(context, 1, 1, &theirs, 1, 0, (column + size - 1) % size);
	int next = world_rank + 2 * (column == 0 ? 1 - size : 1);
	CHECK(theirs == next);
	Cblacs_gridexit(context);
	Cfree_blacs_system_handle(handle);
	MPI_Comm_free(&half);
}

/* The system context of a grid is an MPI communicator of its processes, row by row. */
static void to_a_communicator(void)
{
	int handle, system, map[64], context, rows, columns, row, column, rank, size, result;
	Cblacs_get(-1, 0, &handle);
	CHECK(handle == 0);
	for (int i = 0; i < world_size; i++)
		map[i] = world_size - 1 - i;
	int across = world_size % 2 ? 1 : 2;
	context = handle;
	Cblacs_gridmap(&context, map, world_size / across, world_size / across, across);
	Cblacs_gridinfo(context, &rows, &columns, &row, &column);
	CHECK(world_rank == map[column * rows + row]);
	Cblacs_get(context, 10, &system);
	MPI_Comm comm = Cblacs2sys_handle(system);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	CHECK(size == world_size && rank == Cblacs_pnum(context, row, column));
	int prow, pcol, sum = rank;
	Cblacs_pcoord(context, rank, &prow, &pcol);
	CHECK(prow == row && pcol == column);
	Cblacs_pcoord(context, size, &prow, &pcol);
	CHECK(prow == -1 && pcol == -1 && Cblacs_pnum(context, rows, 0) == -1);
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
	CHECK(sum == size * (size - 1) / 2);
	MPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
	CHECK(result == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
	/* A grid on that communicator: all but the last of its processes. */
	if (size > 1) {
		int inner = system;
		Cblacs_gridinit(&inner, "R", 1, size - 1);
		Cblacs_gridinfo(inner, &rows, &columns, &row, &column);
		if (rank == size - 1) {
			CHECK(inner == -1 && rows == -1 && columns == -1 && row == -1 && column == -1);
		} else {
			CHECK(columns == size - 1 && column == rank && inner != context);
			Cblacs_barrier(inner, "All");
			Cblacs_gridexit(inner);
		}
	}
	Cblacs_gridinfo(63, &rows, &columns, &row, &column);
	CHECK(rows == -1 && columns == -1 && row == -1 && column == -1);
	Cblacs_gridexit(context);
}

/* BLACS' messages wait while MPI's pass, and the other way round. */
static void both_at_once(void)
{
	enum { LARGE = 1 << 18 };
	static double out[LARGE], in[LARGE];
	int context = 0, right = (world_rank + 1) % world_size, left = (world_rank + world_size - 1) % world_size;
	Cblacs_gridinit(&context, "R", world_size, 1);
	for (int i = 0; i < LARGE; i++)
		out[i] = world_rank + i;
	MPI_Request request[2];
	MPI_Irecv(in, LARGE / 2, MPI_DOUBLE, left, 5, MPI_COMM_WORLD, &request[0]);
	Cdgesd2d(context, LARGE / 4, 2, out + LARGE / 2, LARGE / 4, right, 0);
	MPI_Isend(out, LARGE / 2, MPI_DOUBLE, right, 5, MPI_COMM_WORLD, &request[1]);
	Cdgerv2d(context, LARGE / 4, 2, in + LARGE / 2, LARGE / 4, left, 0);
	MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
	for (int i = 0; i < LARGE; i++)
		CHECK(in[i] == left + i);
	/* What is sent while the receiver waits in MPI. */
	if (world_size > 1) {
		int token = 0;
		if (world_rank == 0)
			for (int i = 0; i < 100; i++)
				Cdgesd2d(context, 3, 3, out, 9, 1, 0);
		if (world_rank == 0)
			MPI_Send(&token, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
		if (world_rank == 1) {
			MPI_Recv(&token, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (int i = 0; i < 100; i++)
				Cdgerv2d(context, 3, 3, in, 9, 0, 0);
			CHECK(in[11] == out[11] - 1);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	Cblacs_gridexit(context);
}

int main(int argc, char **argv)
{
	int rank, size, flag, ids[2];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world_size);
	Cblacs_pinfo(&rank, &size);
	CHECK(rank == world_rank && size == world_size);
	Cblacs_get(-1, 1, ids);
	CHECK(ids[0] >= 0 && ids[1] > ids[0]);
	for (int again = 0; again < 3; again++) {
		from_a_communicator();
		to_a_communicator();
		both_at_once();
	}
	double wall = Cdwalltime00(), cpu = Cdcputime00();
	CHECK(wall > 0 && cpu >= 0);
	/* BLACS ends, MPI goes on, BLACS comes back. */
	Cblacs_exit(1);
	MPI_Barrier(MPI_COMM_WORLD);
	int context = 0;
	Cblacs_gridinit(&context, "R", 1, world_size);
	Cblacs_barrier(context, "R");
	CHECK(Cdwalltime00() >= wall && Cdcputime00() >= cpu);
	Cblacs_exit(1);
	MPI_Finalized(&flag);
	CHECK(!flag);
	if (world_rank == 0)
		printf("ok coexist\n");
	fflush(stdout);
	Cblacs_exit(0);
	MPI_Finalized(&flag);
	return flag ? 0 : 4;
}
