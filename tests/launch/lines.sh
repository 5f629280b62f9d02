#!/bin/bash
# Writes $1 lines of 200 letters, in pieces.
letters=(a b c d)
letter=${letters[$((PMI_RANK % 4))]}
half=$(printf "%100s" "" | tr ' ' "$letter")
for ((i = 0; i < $1; i++)); do printf %s "$half"; printf "%s\n" "$half"; done
