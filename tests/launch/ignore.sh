#!/bin/bash
# Ignores what asks politely.
trap '' INT TERM HUP
echo ready
sleep 30
sleep 30
