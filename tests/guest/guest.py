"""Python's ways of making processes, in a rank that uses MPI through ctypes.

Argument: path of libmpi.so.12.  Says "ok python" from rank 0.
"""

import ctypes
import multiprocessing
import subprocess
import sys

COMM_WORLD = 0x44000000


def square(x):
    return x * x


def main():
    mpi = ctypes.CDLL(sys.argv[1])  # RTLD_LOCAL, Python's default
    assert mpi.MPI_Init(None, None) == 0
    rank = ctypes.c_int(-1)
    assert mpi.MPI_Comm_rank(COMM_WORLD, ctypes.byref(rank)) == 0
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            assert pool.map(square, range(20)) == [x * x for x in range(20)]
        assert mpi.MPI_Barrier(COMM_WORLD) == 0
    assert subprocess.check_output(["sh", "-c", "echo $((6 * 7))"]) == b"42\n"
    # A program of MPI's started by a rank is a job of its own, whatever it inherits.
    alone = [sys.executable, "-c", ALONE, sys.argv[1]]
    assert subprocess.check_output(alone) == b"1\n"
    assert mpi.MPI_Barrier(COMM_WORLD) == 0
    assert mpi.MPI_Finalize() == 0
    if rank.value == 0:
        print("ok python")


ALONE = """
import ctypes, sys
mpi = ctypes.CDLL(sys.argv[1])
size = ctypes.c_int()
assert mpi.MPI_Init(None, None) == 0
assert mpi.MPI_Comm_size(0x44000000, ctypes.byref(size)) == 0
assert mpi.MPI_Finalize() == 0
print(size.value)
"""

if __name__ == "__main__":
    main()
