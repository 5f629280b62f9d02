"""Runs a Python program with its standard error in a file of the rank's own: LOG PROGRAM ARGUMENTS.

The file's name is LOG followed by the rank.
"""

import os
import runpy
import sys

_, log, program = sys.argv[:3]
file = os.open(log + os.environ["PMI_RANK"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.dup2(file, 2)
sys.argv = sys.argv[2:]
sys.path[0] = os.path.dirname(program)
runpy.run_path(program, run_name="__main__")
