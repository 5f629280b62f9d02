#!/bin/sh
# Writes for ever.
exec yes
