#!/bin/sh
# Runs every benchmark of tests/bench that was built (`make bench`).
set -eu
build=${BUILD:-build}
ran=0
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
    echo "bench: there is no benchmark in tests/bench yet" >&2
    exit 1
fi
