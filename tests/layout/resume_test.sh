#!/bin/bash
# Stopping and going on, from outside. On the same layout a resumed run gives the bits of an uninterrupted one (lm loss,
# gradient norm, validation loss); on another layout, fp64, the same to 1e-10. And the README's kind of command, as a user types it.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
tp2pp2=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
stop=(--exit-interval 10)

# resumes NAME RANKS ARGUMENTS...: an uninterrupted run in $s/NAME, and one that stops at 10 and goes on.
resumes() {
    local name=$1 ranks=$2
    shift 2
    run_well "$name: 20 steps" "$ranks" "${tiny[@]}" --save "$s/$name" "$@"
    run_well "$name: 10 steps" "$ranks" "${tiny[@]}" --save "$s/$name.10" "${stop[@]}" "$@"
    check_contains "$name: it says why it stops" "$output" "stopped at iteration 10, a multiple of --exit-interval 10"
    check_equal "$name: the marker says 10" "$(cat "$s/$name.10/latest_checkpointed_iteration.txt")" 10
    check_same_bits "$name: the first ten have the same bits" "$(losses "$s/$name.10/metrics.jsonl")" \
        "$(losses "$s/$name/metrics.jsonl" 1 10)" 10
    cp -r "$s/$name.10" "$s/$name.resumed"
    run_well "$name: resumed" "$ranks" "${tiny[@]}" --save "$s/$name.resumed" --load "$s/$name.resumed" "$@"
    check_contains "$name: it says from where" "$output" "resume    $s/$name.resumed/iter_0000010 (saved at "
    check_same_bits "$name: the same bits after resuming" "$(losses "$s/$name.resumed/metrics.jsonl" 11)" \
        "$(losses "$s/$name/metrics.jsonl" 11)" 10
    check_same_bits "$name: the same validation losses" "$(evaluations "$s/$name.resumed/metrics.jsonl" validation)" \
        "$(evaluations "$s/$name/metrics.jsonl" validation)" 2
    check_equal "$name: one metrics.jsonl goes on" "$(ls "$s/$name.resumed")" \
        "$(printf 'iter_0000010\niter_0000020\nlast_exit\nlatest_checkpointed_iteration.txt\nmetrics.jsonl')"
}
# resumes_as NAME FROM RANKS ARGUMENTS...: the checkpoint of FROM at step 10 on another layout, against FROM's own run.
resumes_as() {
    local name=$1 from=$2 ranks=$3
    shift 3
    run_well "$name" "$ranks" "${tiny[@]}" --load "$s/$from.10" --save "$s/$name" "$@"
    check_close "$name: the same losses" "$(losses "$s/$name/metrics.jsonl" 11)" "$(losses "$s/$from/metrics.jsonl" 11)" \
        1e-10 10
    check_close "$name: the same validation losses" "$(evaluations "$s/$name/metrics.jsonl" validation 11)" \
        "$(evaluations "$s/$from/metrics.jsonl" validation 11)" 1e-10 1
}

resumes one 1
resumes tp2pp2 4 "${tp2pp2[@]}"
resumes dp2-fp32 2 --params-dtype fp32 --recompute-activations
resumes_as one-to-tp2pp2 one 4 "${tp2pp2[@]}"
resumes_as tp2pp2-to-one tp2pp2 1
# rates FILE: what the schedules give each step.
rates() { sed -n 's/^{"iteration": \([0-9]*\), .*\("learning rate": .*"global batch size": [0-9]*\), .*$/\1 \2/p' "$1"; }
# A batch that grows (7 x 2, 4 x 4, 2 x 6, 7 x 8 samples are 20 steps), warm-up, stable, decay, a weight decay that
# rises, overlapped reductions and gathers of small buckets: all of it is a function of the samples.
sed -e "s:= \.\./data:= $PWD/tests/data:" -e 's/^train-iters.*/train-samples = 98/' \
    -e 's/^lr-warmup-iters.*/lr-warmup-samples = 8/' -e '/^save/d' -e '/^weight-decay/d' tests/configs/tiny.cfg >"$s/ramp.cfg"
plain=("${tiny[@]}")
tiny=(pretrain --config "$s/ramp.cfg")
resumes ramp 2 --rampup-batch-size 2 2 40 --lr-decay-style WSD --lr-wsd-decay-samples 60 \
    --weight-decay-incr-style linear --start-weight-decay 0.05 --end-weight-decay 0.2 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000 --check-replicas 3
tiny=("${plain[@]}")
check_equal "ramp: the batches are those of the ramp" "$(rates "$s/ramp/metrics.jsonl" |
    sed 's/.*size": //' | uniq -c | awk '{ printf "%s x %s ", $1, $2 }')" "7 x 2 4 x 4 2 x 6 7 x 8 "
check_equal "ramp: the same rates after resuming" "$(rates "$s/ramp.resumed/metrics.jsonl")" \
    "$(rates "$s/ramp/metrics.jsonl")"
check_equal "ramp: nothing is said of changed rates" "$(grep -c 'counts:' "$s/stdout")" 0

# Another schedule on resuming: the options count and both values are shown, or the checkpoint's counts.
later=("${tiny[@]}" --load "$s/one.10" --eval-iters 0 --train-iters 12 --lr-decay-iters 20)
run_well "another rate" 1 "${later[@]}" --lr 1e-2 --save "$s/rate"
check_contains "both are shown" "$output" "the option counts: lr 0.01 (0.005 in the checkpoint)"
run_well "the checkpoint's rate" 1 "${later[@]}" --lr 1e-2 --save "$s/kept" --use-checkpoint-opt_param-scheduler
check_contains "it says so" "$output" "the checkpoint's counts: lr 0.01 (0.005 in the checkpoint)"
check_same_bits "the checkpoint's rate: the steps of the first run" "$(losses "$s/kept/metrics.jsonl" 11)" \
    "$(losses "$s/one/metrics.jsonl" 11 12)" 2
check_lacks "another rate: another step" "$(losses "$s/rate/metrics.jsonl" 12)" "$(losses "$s/one/metrics.jsonl" 12 12)"

if [[ $level == full ]]; then
    resumes fp16 4 "${tp2pp2[@]}" --params-dtype fp16 --initial-loss-scale 67108864 --loss-scale-window 4
    resumes pp2dp2 4 --pipeline-model-parallel-size 2 --micro-batch-size 2
    resumes gpipe-fp32 4 --pipeline-model-parallel-size 4 --pipeline-schedule gpipe --params-dtype fp32
    resumes tp4-fp32 4 --tensor-model-parallel-size 4 --params-dtype fp32
    resumes_as tp2pp2-to-dp4 tp2pp2 4
    resumes_as one-to-tp4pp2 one 8 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2
    # Chunks, sharded state and all three kinds of parallelism, read by less.
    resumes eight 8 "${tp2pp2[@]}" --num-layers-per-virtual-pipeline-stage 1 --use-distributed-optimizer
    resumes_as eight-to-one eight 1
    resumes_as eight-to-tp1dp2 eight 2 --use-distributed-optimizer
    resumes_as eight-to-tp4 eight 4 --tensor-model-parallel-size 4
    resumes_as eight-to-pp4 eight 4 --pipeline-model-parallel-size 4
    resumes_as one-to-pp4 one 4 --pipeline-model-parallel-size 4 --recompute-granularity full --recompute-method uniform \
        --recompute-num-layers 1
fi
check_close "tp2pp2 trains what one rank trains" "$(losses "$s/tp2pp2/metrics.jsonl")" "$(losses "$s/one/metrics.jsonl")" \
    1e-10 20

# --- what else may be left out of a checkpoint, or of loading it; step 11 starts from the same weights all the same
few=(--train-iters 12 --lr-decay-iters 20 --eval-iters 0)
first_loss() { losses "$1/metrics.jsonl" "$2" "$2" | cut -d ' ' -f 1,2; }
run_well "no-load-optim" 1 "${tiny[@]}" "${few[@]}" --load "$s/one.10" --save "$s/no-optim" --no-load-optim
check_contains "no-load-optim: it says so" "$output" "without optimizer state"
check_same_bits "no-load-optim: step 11 sees the same weights" "$(first_loss "$s/no-optim" 11)" "$(first_loss "$s/one" 11)" 1
check_lacks "no-load-optim: step 12 does not" "$(first_loss "$s/no-optim" 12)" "$(first_loss "$s/one" 12)"
run_well "finetune" 1 "${tiny[@]}" --train-iters 1 --lr-warmup-iters 0 --eval-iters 0 --load "$s/one.10" --save "$s/finetune" --finetune
check_contains "finetune: it says so" "$output" "weights only, at iteration 0"
check_equal "finetune: it starts at 1, with trained weights" "$(losses "$s/finetune/metrics.jsonl" | awk -v fresh="$(
    first_loss "$s/one" 1 | cut -d ' ' -f 2
)" '{print $1, ($2 < fresh - 0.05 ? "lower" : $2 " against " fresh)}')" "1 lower"
check_contains "finetune: data from the start" "$(head -n 1 "$s/finetune/metrics.jsonl")" '"consumed samples": 8,'
run_well "no-save-optim" 1 "${tiny[@]}" --save "$s/weights" "${stop[@]}" --no-save-optim
check_equal "no-save-optim: the file is a third" "$(($(stat -c %s "$s/weights/iter_0000010/stage_000.h5") * 5 / 2 < \
    $(stat -c %s "$s/one.10/iter_0000010/stage_000.h5")))" 1
check_refused "no-save-optim: moments are missed" 2 4 "weights/iter_0000010 holds no optimizer state" \
    "saved with --no-save-optim.*try: --no-load-optim" "${tiny[@]}" --load "$s/weights" --save "$s/refused"
run_well "no-save-optim: without them" 1 "${tiny[@]}" "${few[@]}" --load "$s/weights" --save "$s/weights" --no-load-optim
check_same_bits "no-save-optim: the same as no-load-optim" "$(losses "$s/weights/metrics.jsonl" 11)" \
    "$(losses "$s/no-optim/metrics.jsonl" 11)" 2
# Dropout follows the checkpoint's seed, unless --no-load-rng; the order of data follows --seed.
run_well "another seed" 1 "${tiny[@]}" "${few[@]}" --load "$s/one.10" --save "$s/seed" --seed 7
check_contains "another seed: it says what follows what" "$output" \
    "dropout follows the checkpoint's seed 1234, the order of data --seed 7"
check_lacks "another seed: other samples" "$(first_loss "$s/seed" 11)" "$(first_loss "$s/one" 11)"
run_well "no-load-rng" 1 "${tiny[@]}" "${few[@]}" --load "$s/one.10" --save "$s/rng" --seed 7 --no-load-rng
check_lacks "no-load-rng: other masks" "$(first_loss "$s/rng" 11)" "$(first_loss "$s/seed" 11)"
# Which value counts where the checkpoint was saved with another one; the shape from the checkpoint.
run_well "another rate" 1 "${tiny[@]}" "${few[@]}" --load "$s/one.10" --save "$s/rate" --lr 4e-3 --weight-decay 0.2
check_contains "another rate: both are said" "$output" "the option counts: lr 0.004 (0.005 in the checkpoint)"
check_contains "another decay: both are said" "$output" "the option counts: end-weight-decay 0.2 (0.1 in the checkpoint)"
sed '/^num-layers\|^hidden-size\|^num-attention\|^seq-length\|^max-pos/d; s|\.\./|'"$PWD"'/tests/|' tests/configs/tiny.cfg >"$s/shapeless.cfg"
run_well "use-checkpoint-args" 1 pretrain --config "$s/shapeless.cfg" --params-dtype fp64 "${few[@]}" --load "$s/one.10" --save "$s/shape" \
    --use-checkpoint-args
check_same_bits "use-checkpoint-args: the same model goes on" "$(first_loss "$s/shape" 11)" "$(first_loss "$s/one" 11)" 1
# Nothing there to load: a fresh start that says so, or a refusal.
run_well "missing --load" 2 "${tiny[@]}" --train-iters 1 --lr-warmup-iters 0 --eval-iters 0 --load "$s/absent" --save "$s/fresh"
check_contains "missing --load: it says so" "$output" "resume    no checkpoint in $s/absent: starting from scratch"
check_close "missing --load: a fresh start" "$(first_loss "$s/fresh" 1)" "$(first_loss "$s/one" 1)" 1e-10 1
mkdir "$s/empty"
run_well "empty --load" 1 "${tiny[@]}" --train-iters 1 --lr-warmup-iters 0 --eval-iters 0 --load "$s/empty" --save "$s/empty"
check_contains "empty --load: it says so" "$output" "resume    no checkpoint in $s/empty: starting from scratch"
check_refused "exit-on-missing-checkpoint" 2 4 "there is no checkpoint in $s/absent" "--exit-on-missing-checkpoint" \
    "${tiny[@]}" --load "$s/absent" --save "$s/refused" --exit-on-missing-checkpoint
# A checkpoint of the first version of the format.
run_well "version 1" 2 "${tiny[@]}" --num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 \
    --params-dtype fp32 --global-batch-size 4 --train-iters 5 --eval-iters 0 --load tests/data/checkpoint_v1 --save "$s/v1"
check_contains "version 1: it goes on" "$output" "checkpoint_v1/iter_0000003 (saved at "
check_equal "version 1: two more steps" "$(losses "$s/v1/metrics.jsonl" 4 | wc -l)" 2
# A run that is through has nothing left to do, and keeps its checkpoint.
run_well "resuming a run that is through" 1 "${tiny[@]}" --load "$s/one" --save "$s/one"
check_equal "nothing is trained again" "$(losses "$s/one/metrics.jsonl" | wc -l)" 20

# --- a checkpoint says the same on other layouts, and writes text
evaluates() { # on RANKS ARGUMENTS...
    local ranks=$1
    shift
    run_well "evaluate on $ranks" "$ranks" evaluate --config tests/configs/tiny.cfg --load "$s/one" "$@"
    sed -n 's/^ valid loss at iter_0000020 | lm loss value: \([^ ]*\) .*/20 \1/p' "$s/stdout"
}
evaluates 1 >"$s/evaluated"
check_close "evaluate: the loss at step 20" "$(tail -n 1 "$s/evaluated")" \
    "$(evaluates 4 "${tp2pp2[@]}" --eval-iters 2 | tail -n 1)" 1e-6 1
prompt="The checkpoint"
writes() { # on RANKS ARGUMENTS...
    local ranks=$1
    shift
    run_trireme "$ranks" generate --load "$s/one" --config tests/configs/tiny.cfg --prompt "$prompt" --max-new-tokens 12 "$@"
    echo "$status $output"
}
text=$(writes 1)
check_contains "generate goes on from the prompt" "$text" "0 $prompt"
check_equal "it writes something" "$((${#text} > ${#prompt} + 4))" 1
check_equal "the same text on another layout" "$(writes 4 "${tp2pp2[@]}")" "$text"
check_equal "greedily, too" "$(writes 2 --tensor-model-parallel-size 2 --temperature 0)" "$(writes 1 --temperature 0)"

# --- eight ranks against one, typed as a user would; build/tiny is tiny.cfg's own --save
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [[ $programs == build/bin ]]; then
    rm -rf build/tiny
    mpirun -np 8 --oversubscribe build/bin/trireme pretrain --config tests/configs/tiny.cfg --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >"$s/stdout" 2>&1
    check_equal "as typed: 8 ranks" "$?" 0
    losses build/tiny/metrics.jsonl | cut -d ' ' -f 1,2 >"$s/eight_ranks"
    mpirun -np 1 --oversubscribe build/bin/trireme pretrain --config tests/configs/tiny.cfg --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 >"$s/stdout" 2>&1
    check_equal "as typed: 1 rank" "$?" 0
    check_close "as typed: the same losses to 1e-10" "$(<"$s/eight_ranks")" \
        "$(losses build/tiny/metrics.jsonl | cut -d ' ' -f 1,2)" 1e-10 20
else
    echo "ok as typed # SKIP the programs are not in build/bin"
fi
