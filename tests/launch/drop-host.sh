#!/bin/sh
# A launcher command for tests, for which every host is this machine. Some names have a meaning:
# unreachable fails, bare has no Yamabiko, noisy says something first, slow takes its time, foreign runs another version,
# garbage and greedy break the protocol.
[ -n "$DROP_HOST_LOG" ] && echo "$1 $PPID" >>"$DROP_HOST_LOG"
case $1 in
unreachable) echo "no route to $1" >&2; exit 255 ;;
bare) exec sh -c "exec /nowhere/yamabiko" ;;
noisy) echo "Welcome to $1!" ;;
slow) sleep 30; exit 0 ;;
foreign) printf '\001yamabiko-link-1\002\011\0\0\0\377\377\377\377\000\0039.9'; sleep 30; exit 0 ;;
garbage) printf '\001yamabiko-link-1\002\377\377\377\377'; sleep 30; exit 0 ;;
greedy) head -c 100000000 /dev/zero; sleep 30; exit 0 ;;
esac
shift
exec sh -c "exec $*"
