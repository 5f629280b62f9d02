#!/bin/sh
# Says where the rank runs and what it inherited.
echo "$PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS dir=$PWD umask=$(umask) A=$A"
