#!/bin/sh
# Runs every benchmark of tests/bench (`make bench`): programs that stand alone, and scripts that start others.
set -eu
build=${BUILD:-build}
ran=0
# Programs named *_bench run as they are; others are what a script starts.
for program in "$build"/tests/bench/*_bench; do
    [ -x "$program" ] || continue
    "$program"
    ran=1
done
for script in tests/bench/*_bench.sh; do
    [ -x "$script" ] || continue
    BUILD=$build "$script"
    ran=1
done
if [ $ran = 0 ]; then
    echo "bench: there is no benchmark in tests/bench" >&2
    exit 1
fi
