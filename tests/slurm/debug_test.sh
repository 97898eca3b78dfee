#!/bin/bash
# debug.sh: a run in the foreground under srun, one rank under a debugger; preprocess.sbatch on real text.
# shellcheck source=tests/support/slurm_test.sh
. tests/support/slurm_test.sh
if [[ $level != full ]]; then
    echo "ok debug # SKIP it takes a minute: make test-slurm runs it"
    exit 0
fi
debug() { (cd "$s" && timeout 120 "$templates/debug.sh" "$@" 2>&1); }
few=(pretrain --config "${model[0]}" --device cpu --train-iters 2 --lr-warmup-iters 0 --save "$s/debug")

output=$(debug -N 2 -n 4 --nccl "${few[@]}" --tensor-model-parallel-size 2)
check_equal "a run under srun" "$?" 0
check_contains "each line has its rank" "$output" "0: layout    4 ranks on 2 nodes: TP 2 x PP 1 x DP 2"
output=$(debug -N 2 -n 4 "${few[@]}" --params-dtype fp32 --tensor-model-parallel-size 4)
output=${output//$'\n'0: /} # srun labels a long output in the middle of lines, too
check_contains "TP across nodes: a warning" "$output" "warning   1 tensor group spans nodes (that of rank 0 for one)"
check_contains "with what it is foreseen to cost" "$output" "times as long as with TP inside a node ("
# A stand-in for gdb notes how it was called and runs the program.
mkdir "$s/bin"
# shellcheck disable=SC2016
printf '#!/bin/bash\necho "gdb: $*"\nwhile [[ $1 != --args ]]; do shift; done\nshift\nexec "$@"\n' >"$s/bin/gdb"
chmod +x "$s/bin/gdb"
output=$(PATH=$s/bin:$PATH debug -n 2 --gdb 1 --cores "${few[@]}")
check_equal "one rank under gdb" "$? $(grep -c 'gdb: ' <<<"$output")" "0 1"
check_contains "it is the right one" "$output" "1: gdb: -q -batch -ex run -ex thread apply all backtrace --args trireme pretrain"
check_contains "core files: where" "$output" "core files: $(cat /proc/sys/kernel/core_pattern) on the node"
debug -n two "${few[@]}" >"$s/usage"
check_equal "a number is meant" "$? $(grep -c 'debug.sh \[-N' "$s/usage")" "2 1"
debug -n 1 pretrain --no-such-option >"$s/wrong"
check_equal "the exit code of the program" "$?" 2

# Text to tokens on a node, in two shares of an array, joined, the same as at once.
words=(--tokenizer-type GPT2BPETokenizer --vocab-file "$PWD/tests/data/tiny/vocab.json" --merge-file "$PWD/tests/data/tiny/merges.txt" --append-eod)
split -n l/3 --additional-suffix=.jsonl tests/data/tiny/corpus.jsonl "$s/part."
files=("$s"/part.*.jsonl)
submit shares --array=1-2 "$templates/preprocess.sbatch" "$s/shares" "${files[@]}" -- "${words[@]}"
check_equal "two shares" "$(finished "${job}_1"), $(finished "${job}_2")" "COMPLETED 0:0, COMPLETED 0:0"
trireme-data merge --input "$s"/shares.{1,2}_text_document --output-prefix "$s/merged" >/dev/null
# Task 1 had files 1 and 3, task 2 had file 2.
submit once "$templates/preprocess.sbatch" "$s/once" "${files[0]}" "${files[2]}" "${files[1]}" -- "${words[@]}"
check_equal "one job" "$(finished "$job")" "COMPLETED 0:0"
check_equal "the same tokens" "$(cmp "$s/merged.bin" "$s/once_text_document.bin" 2>&1 && wc -c <"$s/merged.bin")" \
    "$(wc -c <"$s/once_text_document.bin")"
