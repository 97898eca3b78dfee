#!/bin/sh
# Runs every script of tests/bench (`make bench`); they start the programs that were built from there.
set -eu
ran=0
for script in tests/bench/*_bench.sh; do
    [ -x "$script" ] || continue
    BUILD=${BUILD:-build} "$script"
    ran=1
done
if [ $ran = 0 ]; then
    echo "bench: there is no benchmark in tests/bench" >&2
    exit 1
fi
