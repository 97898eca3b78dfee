#!/bin/bash
# Under compute-sanitizer: no access out of bounds in the training of a small model, no race in the shared memory of our
# kernels. Races are looked for in tests of operations that need no product: the tool fails on cuBLASLt's kernels.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
if ! command -v compute-sanitizer >/dev/null; then
    echo "ok the small model under compute-sanitizer # SKIP needs compute-sanitizer: it is not on the PATH"
    exit 0
fi
small=("${tiny[@]}" --hidden-size 256 --num-attention-heads 4 --params-dtype bf16 --device cuda --train-iters 2 --eval-interval 2
    --lr-decay-iters 2 --lr-warmup-iters 1)
run_well "the small model" 1 "${small[@]}" --save "$scratch/plain"
mkdir "$scratch/memcheck" && cp "$scratch/plain/matrix_algorithms.txt" "$scratch/memcheck/" # nothing is timed under it
# clean NAME TOOL SUMMARY COMMAND...: the command ends well under the tool, whose summary says that nothing was found.
clean() {
    local name=$1 tool=$2 summary=$3
    shift 3
    started 1 compute-sanitizer --tool "$tool" --error-exitcode 9 "$@"
    if [[ $status == 0 && $output == *"$summary"* ]]; then
        ok "$name under $tool"
    else
        not_ok "$name under $tool" "exit code $status" "$(grep ===== "$scratch/stdout" | head -n 5)" "${errors:0:800}"
    fi
}
# clean_test PROGRAM TEST TOOL SUMMARY: the same of one test, of a bundle or of this build; it must have run.
clean_test() {
    local program=("${BUILD:-build}/tests/gpu/$1")
    [[ -z ${BUNDLE:-} ]] || program=("$BUNDLE/run" "$1")
    clean "$2" "$3" "$4" "${program[@]}" "--gtest_filter=$2"
    [[ $output == *"[  PASSED  ] 1 test."* ]] || not_ok "$2 runs" "$(tail -n 3 "$scratch/stdout")"
}
clean "the small model" memcheck "ERROR SUMMARY: 0 errors" "$programs/trireme" "${small[@]}" --save "$scratch/memcheck"
clean_test ops_test Gpu.CrossEntropyAtOnce memcheck "ERROR SUMMARY: 0 errors" # clusters, which no small model needs
# By families that keep something in shared memory, so that one that races, or takes the tool too long, has a name.
for family in LayerNorm RmsNorm NormGradientsAtOnce Embedding CrossEntropy CrossEntropyAtOnce OptimizerStep; do
    clean_test ops_test "Gpu.$family" racecheck "RACECHECK SUMMARY: 0 hazards"
done
for family in Dropout DropoutOnTheMatrixUnit DocumentsOnTheMatrixUnit DocumentsDoNotSeeEachOther; do
    clean_test attention_test "GpuAttention.$family" racecheck "RACECHECK SUMMARY: 0 hazards"
done
