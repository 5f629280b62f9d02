# Prints what the rank inherited.
[ -n "$LAUNCH_TEST_MARK" ] && mark=yes || mark=no
echo "$PMI_RANK A=$A B=$B mark=$mark dir=$PWD ranks=$PMI_SIZE of mine=$YAMABIKO_MAXPROCS"
