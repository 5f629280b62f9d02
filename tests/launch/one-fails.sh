#!/bin/sh
# Rank 1 fails at once; the others finish their work.
[ "$PMI_RANK" = 1 ] && exit 3
sleep 0.5
echo "done $PMI_RANK"
