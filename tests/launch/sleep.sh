#!/bin/sh
# Waits without handling anything.
echo ready
exec sleep 30
