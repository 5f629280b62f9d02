# Says what it reads until the end of input.
[ "$PMI_RANK" = 0 ] && echo ready
while read -r line; do echo "rank $PMI_RANK read $line"; done
echo "rank $PMI_RANK read end"
