# Works for a while and writes.
for i in 1 2 3 4 5; do echo "working $i"; sleep 0.2; done
