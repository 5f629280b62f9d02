#!/bin/bash
# Asks without ending the line.
printf "name? "
sleep 30
