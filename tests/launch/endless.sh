#!/bin/bash
# Sends a line without end to the launcher.
head -c 1000000 /dev/zero >&"$PMI_FD"
sleep 30
