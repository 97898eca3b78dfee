#!/bin/bash
# The end of a run loses nothing: started again when nothing is left to do, with metrics or a trace that cannot be written, or
# told not to save.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
short=("${tiny[@]}" --lr-warmup-iters 0 --eval-iters 0)

# A finished run that is started again has nothing to save, least of all what it has loaded in part.
run_well "a run of 4 iterations" 2 "${short[@]}" --train-iters 4 --save "$s/run"
before=$(cd "$s/run" && cksum iter_0000004/* latest_checkpointed_iteration.txt)
for options in "" "--no-load-optim" "--no-save-optim" "--train-iters 3"; do
    # shellcheck disable=SC2086 # words
    run_well "started again $options" 2 "${short[@]}" --train-iters 4 --load "$s/run" --save "$s/run" $options
    check_contains "started again $options: it says so" "$output" "no step was made: the run is at iteration 4"
    check_equal "started again $options: the checkpoint is as it was" \
        "$(cd "$s/run" && cksum iter_0000004/* latest_checkpointed_iteration.txt)" "$before"
done
run_well "a copy elsewhere" 2 "${short[@]}" --train-iters 4 --load "$s/run" --save "$s/copy"
check_contains "a copy elsewhere is saved" "$(ls "$s/copy")" iter_0000004

# What is only written for people to read ends no run.
mkdir -p "$s/trace/trace.json/in_the_way"
run_well "a trace that cannot be written" 1 "${short[@]}" --train-iters 4 --profile 2 --save "$s/trace"
check_contains "a trace: it is said" "$errors" "trace.json"
check_contains "a trace: the run is whole" "$(ls "$s/trace")" iter_0000004

# The last iteration is the end, whether or not it is a multiple of --exit-interval: the last evaluation takes place.
run_well "the last iteration is one of --exit-interval" 1 "${tiny[@]}" --train-iters 4 --eval-interval 3 --exit-interval 4 \
    --save "$s/interval"
check_contains "the end is evaluated" "$output" "validation loss at the end of training"
check_contains "the reason is the end" "$(cat "$s/interval/last_exit")" "reason=iterations"

# Exit code 75 is for those who can go on from what is saved.
run_trireme 1 "${short[@]}" --train-iters 1000 --exit-duration-in-mins 0.0001 --save "$s/kept"
check_equal "stopped for its duration and saved: 75" "$status" 75
run_trireme 1 "${short[@]}" --train-iters 1000 --exit-duration-in-mins 0.0001 --no-save-on-exit --save "$s/unkept"
check_equal "stopped without saving: 0" "$status" 0
check_contains "stopped without saving: it is said" "$output" "nothing was saved, by --no-save-on-exit"
