#!/bin/bash
# The small model under compute-sanitizer: no access out of bounds, no race in shared memory.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
if ! command -v compute-sanitizer >/dev/null; then
    echo "ok the small model under compute-sanitizer # SKIP needs compute-sanitizer: it is not on the PATH"
    exit 0
fi
for tool in memcheck racecheck; do
    started 1 compute-sanitizer --tool "$tool" --error-exitcode 9 "$programs/trireme" "${tiny[@]}" --hidden-size 256 \
        --num-attention-heads 4 --params-dtype bf16 --device cuda --train-iters 3 --eval-interval 3 --save "$scratch/$tool"
    if [[ $status == 0 ]]; then
        ok "the small model under $tool"
    else
        not_ok "the small model under $tool" "exit code $status" "$(grep ===== "$scratch/stdout" | head -n 5)" "${errors:0:800}"
    fi
done
