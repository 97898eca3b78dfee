#!/bin/bash
# Runs rows of the GPU comparison (`make bench-gpu ROW="124M 1.3B"`; tests/bench/gpu_rows.py lists them) and appends to
# RESULTS (default BUILD/bench-gpu.jsonl). With BUNDLE=dir the programs of that bundle are measured and nothing is built.
set -eu
build=${BUILD:-build}
# shellcheck source=scripts/mpi_environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/mpi_environment.sh"
trireme=$build/bin/trireme
[[ -z ${BUNDLE:-} ]] || trireme="$BUNDLE/run trireme"
mkdir -p "$build"
exec "${PYTHON:-python3}" tests/bench/gpu_bench.py --trireme "$trireme" --results "${RESULTS:-$build/bench-gpu.jsonl}" \
    --python "${PYTHON:-python3}" --mpirun "${MPIRUN:-mpirun} ${MPIRUN_FLAGS[*]}" --device "${DEVICE:-cuda}" \
    --logs "${LOGS:-$build/bench-gpu-logs}" --limit "${LIMIT:-480}" --candidates "${CANDIDATES:-99}" \
    ${WITHOUT:+--without "$WITHOUT"} "$@"
