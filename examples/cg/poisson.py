#!/usr/bin/env python3
"""Writes the Matrix Market file of this example: the five-point Laplacian on an n x n grid.

    python3 poisson.py 80 > poisson-80.mtx
"""
import sys


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 80
    entries = []
    for y in range(n):
        for x in range(n):
            row = y * n + x + 1
            if y > 0:
                entries.append((row, row - n, -1))
            if x > 0:
                entries.append((row, row - 1, -1))
            entries.append((row, row, 4))
    print("%%MatrixMarket matrix coordinate real symmetric")
    print(f"% five-point Laplacian on a {n} x {n} grid, lower triangle")
    print(n * n, n * n, len(entries))
    for row, column, value in entries:
        print(row, column, value)


main()
