# Starts MPI programs with PMI variables that do not fit their descriptors any more.
fd=$PMI_FD
eval "exec $fd>&-"
"$PROBE" alone
eval "exec $fd</dev/null"
"$PROBE" alone
exec 9<>/dev/null
PMI_FD=9 PMI_SIZE=64 PMI_RANK=63 "$PROBE" alone
