#!/bin/sh
# Closes its standard input and stays.
exec <&-
echo closed
sleep 30
