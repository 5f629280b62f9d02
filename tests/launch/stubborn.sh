#!/bin/bash
# Rank 0 fails; the others ignore SIGTERM.
[ "$PMI_RANK" = 0 ] && sleep 0.2 && exit 5
trap '' TERM
sleep 30
