# Two MPI programs one after the other in each rank.
"$PROBE" hello >/dev/null && "$PROBE" hello
code=$?
exit $code
