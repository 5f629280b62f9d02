#!/bin/bash
# Speaks something else on the launcher's socket.
echo "cmd=init pmi_version=1 pmi_subversion=1" >&"$PMI_FD"
echo "cmd=rm -rf=/" >&"$PMI_FD"
sleep 30
