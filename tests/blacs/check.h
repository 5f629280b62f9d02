/* What all tests of BLACS need. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>

#include <blacs.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds) \
	do { \
		if (!(holds)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds); \
			Cblacs_abort(-1, 3); \
		} \
	} while (0)

#endif
