#!/bin/bash
# Checkpoints are what docs/checkpoint-format.md says to readers that are not ours: its script for h5py is run as it
# stands there, and h5dump lists the names. TRIREME_H5PY names a Python that has h5py; else python3 is tried, and Debian's.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
python=${TRIREME_H5PY:-${PYTHON:-python3}}
# Debian's package is one for Debian's Python.
"$python" -c 'import h5py' 2>/dev/null || [[ -n ${TRIREME_H5PY:-} ]] || python=/usr/bin/python3
run_well "a checkpoint" 2 "${tiny[@]}" --save "$scratch/save" --train-iters 1 --eval-iters 0 --lr-warmup-iters 0 \
    --global-batch-size 4 --params-dtype bf16 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 2
index=$scratch/save/iter_0000001/checkpoint.h5

if "$python" -c 'import h5py' 2>/dev/null; then
    awk '/^## /{on = ($0 == "## Reading one on a laptop")} on && /^    /{sub(/^    /, ""); print; next} on && /^$/{print ""}' \
        docs/checkpoint-format.md >"$scratch/read.py"
    output=$("$python" "$scratch/read.py" "$index" 2>&1)
    check_contains "h5py: counters and options" "$output" "at iteration 1
layers 4 hidden 32"
    # Three norms against our own tool, to the digits that it prints.
    run_trireme 1 checkpoint inspect --norms "${index%/*}"
    for name in embedding.word.weight layers.3.mlp.up.weight final_norm.weight; do
        theirs=$(sed -n "s/^$name (.*) float32 norm \(.*\)/\1/p" <<<"$(tr -d '\r' <<<"$("$python" "$scratch/read.py" "$index")")")
        ours=$(awk -v name="$name" '$1 == name {for (i = 1; i < NF; i++) if ($i == "norm") {print $(i + 1); exit}}' "$scratch/stdout")
        check_equal "h5py: $name" "$(printf '%.5g' "${theirs:-nan}")" "$(printf '%.5g' "${ours:-0}")"
    done
else
    echo "ok h5py # SKIP needs h5py: $python does not have it"
fi
if command -v h5dump >/dev/null; then
    names=$(h5dump -n "$index" 2>&1)
    check_contains "h5dump -n: groups" "$names" "/parameters"
    for name in parameters/embedding.word.weight second_moment/layers.3.mlp.down.weight master_weights/final_norm.bias; do
        check_contains "h5dump -n: $name" "$names" "/$name"
    done
else
    echo "ok h5dump # SKIP needs h5dump: it is not installed (hdf5-tools)"
fi
