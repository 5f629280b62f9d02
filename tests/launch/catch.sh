#!/bin/bash
# Says which signal came, and ends well.
# Nothing ever comes from this pipe. It is opened once, before the traps are set: bash parses a `<( )` each
# time it comes there, and a trap that runs in the middle of that is lost with a syntax error.
exec 3<> <(:)
for name in INT TERM HUP USR1 USR2; do trap "echo got $name; exit 0" "$name"; done
echo ready
for _ in {1..600}; do read -r -t 0.05 -u 3; done
