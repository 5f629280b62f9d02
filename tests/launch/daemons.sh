#!/bin/bash
# Starts processes that hide in the background and in sessions of their own.
setsid bash -c 'setsid sleep 31 </dev/null >/dev/null 2>&1 & sleep 32' </dev/null >/dev/null 2>&1 &
(trap '' TERM HUP; sleep 0.2; echo late words; sleep 33) &
echo ready
[ "$1" = leave ] && exit 0
wait
