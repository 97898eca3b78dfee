#!/bin/bash
# Documents within samples as people meet them: the first screen says what their ends do, two layouts write the same losses,
# the checkpoint hands the options on to `evaluate`, and data without ends get a warning.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
masks=(--reset-attention-mask --reset-position-ids --eod-mask-loss)
short=(--train-iters 3 --lr-warmup-iters 0 --eval-interval 3 --eval-iters 2 --global-batch-size 4 --split "80,20,0")
run_well "four ranks" 4 "${tiny[@]}" "${short[@]}" "${masks[@]}" --save "$s/four" --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2
check_contains "the first screen" "$output" \
    "documents attention within documents, positions restart, no loss behind their ends; a document ends with token"
check_equal "no warning" "$(grep -c '^warning' <<<"$output")" 0
run_well "one rank" 1 "${tiny[@]}" "${short[@]}" "${masks[@]}" --save "$s/one" --micro-batch-size 4
check_close "the same losses" "$(losses "$s/one/metrics.jsonl")" "$(losses "$s/four/metrics.jsonl")" 1e-10 3
check_close "the same validation" "$(evaluations "$s/one/metrics.jsonl" validation)" \
    "$(evaluations "$s/four/metrics.jsonl" validation)" 1e-10 1
run_well "without masks" 1 "${tiny[@]}" "${short[@]}" --save "$s/none"
check_equal "which is another training" \
    "$([[ $(losses "$s/none/metrics.jsonl" 1 1) != "$(losses "$s/one/metrics.jsonl" 1 1)" ]] && echo other)" other

corpus=(--data-path tests/data/tiny/corpus_text_document --split "80,20,0" --eval-iters 2 --global-batch-size 4)
run_well "evaluate" 2 evaluate --load "$s/one" "${corpus[@]}" --micro-batch-size 1 --device cpu
check_contains "takes the masks from the checkpoint" "$output" "documents attention within documents"
# The same samples as the validation at the end: 17 digits against the printed ones.
loss=$(evaluations "$s/one/metrics.jsonl" validation | cut -d ' ' -f 2)
check_contains "and finds the loss of the validation" "$(grep -v '^documents' <<<"$output")" "$(printf '%.4E' "$loss" | cut -c 1-6)"

started 1 "$programs/trireme-data" preprocess --input tests/data/tiny/corpus.jsonl --output-prefix "$s/endless" \
    --tokenizer-type GPT2BPETokenizer --vocab-file tests/data/tiny/vocab.json --merge-file tests/data/tiny/merges.txt
run_well "data without ends" 2 "${tiny[@]}" --train-iters 2 --lr-warmup-iters 0 --global-batch-size 4 \
    --data-path "$s/endless_text_document" --eval-interval 5 --save "$s/endless" --reset-attention-mask
check_equal "get one warning" "$(grep -c '^warning   no document ends in 4 samples: token [0-9]* is' <<<"$output")" 1
