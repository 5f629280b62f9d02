#!/bin/bash
# Fails when it is asked to end.
exec 3<> <(:)
trap 'exit 9' TERM
echo ready
for _ in {1..600}; do read -r -t 0.05 -u 3; done
