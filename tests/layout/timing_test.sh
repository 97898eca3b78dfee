#!/bin/bash
# --timing-log-level and --profile on several ranks: the line names the groups that talk, and the trace holds every rank.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
run_well "timers and a trace on four ranks" 4 "${tiny[@]}" --train-iters 4 --log-interval 4 --eval-interval 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --timing-log-level 1 --profile 2 --save "$s/run"
check_contains "the line has kinds of work" "$output" "timing (ms a step and share, mean of ranks; the slowest):"
for kind in forward backward optimizer data "tensor group" "pipeline group"; do
    check_contains "and $kind" "$(grep '^ timing' <<<"$output" | tail -n 1)" " $kind "
done
check_contains "the trace is announced" "$output" "wrote $s/run/trace.json"
for rank in 0 1 2 3; do
    check_contains "rank $rank is in it" "$(cat "$s/run/trace.json")" "\"name\":\"rank $rank on "
done
check_equal "two steps of four ranks" "$(grep -c '"cat":"step"' "$s/run/trace.json")" 8
