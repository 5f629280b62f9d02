#!/bin/sh
# A launcher command for tests, for which every host is this machine. Some names have a meaning:
# unreachable fails, noisy says something first.
[ -n "$DROP_HOST_LOG" ] && echo "$1 $PPID" >>"$DROP_HOST_LOG"
case $1 in
unreachable) echo "no route to $1" >&2; exit 255 ;;
noisy) echo "Welcome to $1!" ;;
esac
shift
exec sh -c "exec $*"
