#!/bin/bash
# The small model under compute-sanitizer: no access out of bounds, no race in shared memory.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
if ! command -v compute-sanitizer >/dev/null; then
    echo "ok the small model under compute-sanitizer # SKIP needs compute-sanitizer: it is not on the PATH"
    exit 0
fi
small=("${tiny[@]}" --hidden-size 256 --num-attention-heads 4 --params-dtype bf16 --device cuda --train-iters 2 --eval-interval 2
    --lr-decay-iters 2 --lr-warmup-iters 1)
run_well "the small model" 1 "${small[@]}" --save "$scratch/plain"
# Races in shared memory are looked for in our kernels alone: NVIDIA's take minutes under the tool.
for tool in memcheck "racecheck --kernel-name kns=trireme"; do
    name=${tool%% *}
    mkdir "$scratch/$name" && cp "$scratch/plain/matrix_algorithms.txt" "$scratch/$name/" # nothing is timed under it
    # shellcheck disable=SC2086
    started 1 compute-sanitizer --tool $tool --error-exitcode 9 "$programs/trireme" "${small[@]}" --save "$scratch/$name"
    if [[ $status == 0 && $output == *"ERROR SUMMARY: 0 errors"* || $status == 0 && $output == *"RACECHECK SUMMARY: 0 hazards"* ]]; then
        ok "the small model under $name"
    else
        not_ok "the small model under $name" "exit code $status" "$(grep ===== "$scratch/stdout" | head -n 5)" "${errors:0:800}"
    fi
done
