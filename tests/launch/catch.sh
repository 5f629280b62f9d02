#!/bin/bash
# Says which signal came, and ends well.
for name in INT TERM HUP USR1 USR2; do trap "echo got $name; exit 0" "$name"; done
echo ready
for _ in {1..3000}; do read -r -t 0.01 <><(:); done
