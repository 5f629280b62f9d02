#!/bin/sh
# Rank $1 dies of signal $2; the others wait to be ended.
[ "$PMI_RANK" = "$1" ] && kill -s "$2" $$
sleep 30
