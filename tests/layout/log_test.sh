#!/bin/bash
# What a run prints, as people and their scripts read it: the first screen, Megatron-LM's iteration line field for field,
# and the same numbers in metrics.jsonl.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
short=(--train-iters 3 --eval-interval 2 --eval-iters 1 --global-batch-size 4 --save "$s/run")
run_well "a run on four ranks" 4 "${tiny[@]}" "${short[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
cp "$s/stdout" "$s/four"
check_equal "stderr stays empty" "$errors" ""

# check_lines NAME PATTERN COUNT: that many lines of the run match the whole extended regular expression.
check_lines() {
    local found
    found=$(grep -Ec "^$2\$" "$s/four")
    if [[ $found == "$3" ]]; then ok "$1"; else not_ok "$1" "$found lines, wanted $3: $2" "$(head -c 1500 "$s/four")"; fi
}
number='-?[0-9]+(\.[0-9]+)?'
check_equal "the version comes first" "$(head -n 1 "$s/four" | grep -Ec '^trireme [0-9.]+ \(.*g\+\+ .*\)$')" 1
# Bubble of equal stages: (P - 1) / (micro-batches + P - 1) = 1 / 5.
check_lines "layout" 'layout    4 ranks on 1 node: TP 2 x PP 2 x DP 1, 1f1b with 4 micro-batches, bubble 20.0 %' 1
check_lines "places" '          [^ ]+: stage 0 = ranks 0-1, stage 1 = ranks 2-3' 1
check_lines "model" 'model     GPT 4 layers \(2 \+ 2\), hidden 32, 4 heads, sequence 32, vocabulary 500 \(padded to 512\), fp64' 1
# By hand: embeddings 500 x 32 + 32 x 32, 4 layers of 12 x 32^2 + 13 x 32, a last norm of 2 x 32 = 67,904. A stage: two
# layers and the embeddings (or their copy); a tensor rank: half of each matrix.
check_lines "parameters" "          number of parameters: 0.07M \| per pipeline rank: 0.04M \| per tensor rank: 0.02M" 1
check_lines "memory" 'memory    per rank, worst stage [01]: [0-9.]+ [KM]iB \(weights .*, gradients .*, optimizer .*, activations .*\)' 1
corpus='[^ ]*corpus_text_document'
check_lines "data" "data      train: 3 iterations x 4 samples of $corpus: 13.5 K tokens, 67 documents = 422 samples an epoch; \
12 samples drawn = 0.03 epochs" 1
check_lines "validation data" "          valid: 1 x 4 samples an evaluation of $corpus: 2.4 K tokens, 7 documents = 76 samples an \
epoch; 4 samples drawn = 0.05 epochs" 1
check_equal "options are sorted" "$(sed -n 's/^  \([a-z0-9-]*\) \.\.\..*/\1/p' "$s/four" | LC_ALL=C sort -c 2>&1)" ""
check_equal "all of them are shown, with where they come from" \
    "$(grep -Ec '^  (lr|train-iters|save|adam-beta1|ffn-hidden-size) \.+ ' "$s/four")" 5
check_lines "where a value comes from" '  train-iters \.+ 3 \(command line\)' 1

check_lines "iteration line" " \[[0-9]{4}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\] iteration +[123]/       3 \
\| consumed samples: +(4|8|12) \| elapsed time per iteration \(ms\): [0-9]+\.[0-9] \| tokens per second: [0-9]+ \
\| throughput per rank \(TFLOP/s/rank\): [0-9.e-]+ \| learning rate: [0-9]\.[0-9]{6}E[-+][0-9]{2} \
\| global batch size:     4 \| lm loss: [0-9]\.[0-9]{6}E\+00 \| loss scale: 1\.0 \| grad norm: $number \
\| number of skipped iterations:   0 \| number of nan iterations:   0 \| time left: .*" 3
check_lines "validation during training" \
    ' validation loss at iteration 2 \| lm loss value: [0-9.]+E\+00 \| lm loss PPL: [0-9.]+E\+02 \|' 1
check_lines "validation at the end" \
    ' validation loss at the end of training \| lm loss value: [0-9.]+E\+00 \| lm loss PPL: [0-9.]+E\+02 \|' 1
check_lines "saving" " saved $s/run/iter_0000003 in [0-9.]+ s" 1

# metrics.jsonl: one object a line, its names in this order, its numbers those of the log.
real='-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?'
check_equal "metrics.jsonl has five lines" "$(wc -l <"$s/run/metrics.jsonl")" 5
check_equal "three are of steps" "$(grep -Ec "^\{\"iteration\": [0-9]+, \"consumed samples\": [0-9]+, \"lm loss\": $real, \
\"grad norm\": $real, \"learning rate\": $real, \"global batch size\": 4, \"elapsed time per iteration \(ms\)\": $real, \
\"tokens per second\": $real, \"throughput per rank \(TFLOP/s/rank\)\": $real, \"loss scale\": 1, \"skipped iterations\": 0, \
\"nan iterations\": 0, \"time\": \"[-0-9: ]{19}\"\}\$" "$s/run/metrics.jsonl")" 3
check_equal "two are of evaluations" "$(grep -Ec "^\{\"iteration\": [23], \"consumed samples\": (8|12), \
\"validation loss\": $real, \"validation perplexity\": $real\}\$" "$s/run/metrics.jsonl")" 2
check_equal "the losses have 16 digits or more" "$(losses "$s/run/metrics.jsonl" | grep -Ec '^[0-9]+ [0-9]\.[0-9]{15,} ')" 3
check_equal "the log shows them rounded" "$(sed -n 's/.*lm loss: \([^ ]*\) |.*/\1/p' "$s/four")" \
    "$(losses "$s/run/metrics.jsonl" | awk '{printf "%.6E\n", $2}')"

# A fresh start into the same directory keeps the older numbers; the first line comes whatever the interval.
cp "$s/run/metrics.jsonl" "$s/older"
run_well "a fresh run there" 1 "${tiny[@]}" "${short[@]}" --log-interval 100 --eval-iters 0
check_equal "the older metrics.jsonl is kept" "$(cmp "$s/older" "$s/run/metrics.jsonl.1" 2>&1)" ""
check_equal "log-interval 100: the first step alone is logged" "$(losses "$s/run/metrics.jsonl" | cut -d ' ' -f 1)" 1
check_close "one rank, the same loss" "$(losses "$s/run/metrics.jsonl")" "$(losses "$s/older" 1 1)" 1e-10 1
# Several steps a line: the loss is their mean.
run_well "a line for two steps" 1 "${tiny[@]}" "${short[@]}" --log-interval 3 --eval-iters 0
mean=$(losses "$s/older" 2 3 | awk '{sum += $2; norm = $3} END {printf "3 %.17g %s", sum / NR, norm}')
check_close "its loss is the mean since the last line" "$(losses "$s/run/metrics.jsonl" 3 3)" "$mean" 1e-10 1

run_well "all documents for training" 1 "${tiny[@]}" "${short[@]}" --split 100,0,0
check_contains "it says that nothing is evaluated" "$output" "there is no validation part (--split, --valid-data-path)"
check_equal "and nothing is" "$(grep -c validation "$s/run/metrics.jsonl")" 0

run_trireme 2 --help
check_equal "help is printed once" "$status $(grep -c 'usage: trireme COMMAND' "$s/stdout")" "0 1"
run_trireme 2 pretrain --help
check_equal "help of a command, too" "$status $(grep -c -- '--tensor-model-parallel-size' "$s/stdout")" "0 1"
run_trireme 1 info
check_contains "info says how it was built" "$output" "devices"
