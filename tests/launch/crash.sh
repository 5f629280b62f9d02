#!/bin/bash
# Writes much and crashes; rank 1 waits.
[ "$PMI_RANK" = 1 ] && sleep 30
seq -f 'line %.0f' 1 20000
printf "last words without end of line"
kill -SEGV $$
