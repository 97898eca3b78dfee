#!/bin/bash
# A loss that is not finite: it stands in the log, ends the run with its step and exit code 7, and nothing is saved after
# it; with --no-check-for-nan-in-loss-and-grad the run goes on and counts.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
# One absurd step, then nothing is finite: the first update already has the full learning rate.
absurd=(--lr 1e30 --lr-warmup-iters 0 --lr-decay-style constant --clip-grad 0 --params-dtype fp32 --eval-iters 0
    --global-batch-size 4 --train-iters 6)

check_refused "the run ends with its step" 2 7 "loss or gradient is not finite in iteration [2-6]" \
    "lm loss .*(nan|inf).*try: .*--lr" "${tiny[@]}" "${absurd[@]}" --save "$s/nan" --save-interval 1 \
    --tensor-model-parallel-size 2
bad=$(sed -n 's/.*is not finite in iteration \([0-9]*\).*/\1/p' "$s/stderr")
last=$(grep '^ \[.*iteration' "$s/stdout" | tail -n 1)
check_contains "its line is in the log" "$last" "iteration $(printf '%8d' "$bad")/       6 |"
if [[ $last =~ lm\ loss:\ -?(nan|inf)\ \|.*grad\ norm:\ -?(nan|inf)\ .*nan\ iterations:\ \ \ 1\ \| ]] ||
    [[ $last =~ grad\ norm:\ -?(nan|inf)\ .*nan\ iterations:\ \ \ 1\ \| ]]; then
    ok "it shows what is not finite, and counts it"
else
    not_ok "it shows what is not finite, and counts it" "$last"
fi
check_equal "the last checkpoint is of the step before" "$(cat "$s/nan/latest_checkpointed_iteration.txt")" "$((bad - 1))"
check_equal "and there is no later one" "$(find "$s/nan" -name 'iter_*' | wc -l)" "$((bad - 1))"
# "nan", "-nan", "inf", "-inf" in quotes: JSON has no such numbers.
check_equal "metrics.jsonl has the step" "$(tail -n 1 "$s/nan/metrics.jsonl" |
    grep -c '^{"iteration": '"$bad"', .*"grad norm": "-\{0,1\}\(nan\|inf\)", .*"nan iterations": 1, ')" 1

run_well "unchecked, it goes on" 1 "${tiny[@]}" "${absurd[@]}" --save "$s/unchecked" --no-check-for-nan-in-loss-and-grad
check_contains "and counts" "$(grep '^ \[.*iteration' "$s/stdout" | tail -n 1)" \
    "number of skipped iterations: $(printf '%3d' $((7 - bad))) | number of nan iterations: $(printf '%3d' $((7 - bad))) |"
check_equal "all six steps are there" "$(grep -c '"lm loss"' "$s/unchecked/metrics.jsonl")" 6
check_equal "and the checkpoint of the last" "$(cat "$s/unchecked/latest_checkpointed_iteration.txt")" 6

check_refused "a fixed loss scale of fp16 that is too large" 1 7 "gradient norm .*, at the fixed loss scale 1e\\+30" \
    "try: a lower --loss-scale, or none" "${tiny[@]}" --params-dtype fp16 --loss-scale 1e30

# Repeated, it is the same again: the model's fault, and where it began.
check_refused "rerun-nan: the model is to blame" 2 7 \
    "not finite in iteration $bad, and again when the step is repeated: a flaw of the model or its data" \
    "first in the .*, on rank [01].*repeated twice from the same state.*try: .*--lr" \
    "${tiny[@]}" "${absurd[@]}" --tensor-model-parallel-size 2 --rerun-nan
