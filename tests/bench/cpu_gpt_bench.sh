#!/bin/sh
# Training steps of a small GPT on the CPU: PyTorch and Trireme by turns, twice each, the fastest step of each counts. PYTHON
# names an interpreter that has torch (default python3); THREADS the threads of each (default 2). With THREADS=1 tokens per
# second of processor time are compared as well: figures that hold on a busy machine. When OPENBLAS_CORETYPE is set, Trireme
# is timed with and without it, because OpenBLAS then leaves the choice of kernels to that variable. VERBOSE=1 shows the
# JSON lines.
set -eu
build=${BUILD:-build} python=${PYTHON:-python3} threads=${THREADS:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

torch() {
    "$python" tests/bench/torch_cpu_gpt.py --layers 6 --hidden 384 --heads 6 --seq 256 --vocab 8192 --micro-batch 8 \
        --threads "$threads" >>"$work/torch" 2>"$work/warnings" || { cat "$work/warnings" >&2; exit 1; }
}
trireme() { "$build/tests/bench/cpu_gpt" 6 384 6 256 8192 8 10 "$threads" >>"$work/trireme"; }
trireme_unset() { (unset OPENBLAS_CORETYPE && "$build/tests/bench/cpu_gpt" 6 384 6 256 8192 8 10 "$threads") >>"$work/unset"; }

# The largest figure of that name in a file of JSON lines; nothing where the file is missing.
best() {
    [ ! -f "$work/$1" ] || sed -n "s/.*\"$2\": \([0-9.e+]*\).*/\1/p" "$work/$1" | sort -g | tail -n 1
}
# line LABEL FILE: its figures, and their ratios to PyTorch's.
line() {
    printf '  %-58s' "$1"
    awk -v wall="$(best "$2" tokens_per_second)" -v cpu="$(best "$2" tokens_per_cpu_second)" -v threads="$threads" \
        -v torch_wall="$(best torch tokens_per_second)" -v torch_cpu="$(best torch_cpu tokens_per_cpu_second)" '
        function ratio(ours, theirs) { return theirs > 0 ? sprintf(" (%.2f x PyTorch)", ours / theirs) : "" }
        BEGIN {
            text = sprintf("%6.0f tokens/s%s", wall, ratio(wall, torch_wall))
            if (threads == 1) text = text sprintf(", %.0f tokens/CPU-s%s", cpu, ratio(cpu, torch_cpu))
            print text
        }'
}

has_torch=yes
"$python" -c 'import torch' 2>/dev/null || has_torch=no
for _ in first second; do
    [ $has_torch = no ] || torch
    trireme
    [ -z "${OPENBLAS_CORETYPE:-}" ] || trireme_unset
done
# PyTorch's processor time stands there by kind: {"eager": 970.1, "compiled": 975.2}.
[ $has_torch = no ] || sed 's/.*"tokens_per_cpu_second": {\([^}]*\)}.*/\1/' "$work/torch" | tr , '\n' |
    sed 's/.*: */"tokens_per_cpu_second": /' >"$work/torch_cpu"

echo "GPT of 6 layers, hidden 384, 6 heads, sequence 256, vocabulary 8192, micro-batch 8, fp32, threads: $threads"
if [ $has_torch = yes ]; then
    printf '  %-58s%6.0f tokens/s' "$(sed -n '1s/.*"program": "\([^"]*\)".*/\1/p' "$work/torch") (the faster of eager and compiled)" \
        "$(best torch tokens_per_second)"
    [ "$threads" != 1 ] || printf ', %.0f tokens/CPU-s' "$(best torch_cpu tokens_per_cpu_second)"
    echo
else
    echo "  PyTorch is not compared: $python cannot import torch. For example:"
    echo "      python3 -m venv build/venv && build/venv/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu"
    echo "      make bench PYTHON=build/venv/bin/python"
fi
if [ -n "${OPENBLAS_CORETYPE:-}" ]; then
    line "trireme, OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE as set here" trireme
    line "trireme, OPENBLAS_CORETYPE unset" unset
else
    line trireme trireme
fi
echo "  $(sed -n '1s/.*"backend": "\([^"]*\)".*/\1/p' "$work/trireme")"
if [ "${VERBOSE:-0}" = 1 ]; then
    for file in torch trireme unset; do
        [ ! -f "$work/$file" ] || cat "$work/$file"
    done
fi
