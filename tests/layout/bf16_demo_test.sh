#!/bin/bash
# The demo's model learns in bf16 what it learns in fp32: after 200 steps on real text its loss is within 1 % of fp32's, at a
# rate that such a short training bears (5e-4; 0.05 % was seen). At the demo's own 2e-3, meant for its 1600 steps, the two
# trainings drift apart as those of two seeds do (validation losses by +0.5, +2.1 and -4.9 % with three seeds, and no less
# when the losses of the last 50 or 100 steps are averaged), which says nothing of bf16. The figure is printed. The demo runs
# as it is (200 steps instead of its own number), then its two training commands, taken from what it prints, again with --bf16.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
if [[ $level != full ]]; then
    echo "ok bf16 against fp32 on the demo # SKIP two demos take a minute: TRIREME_TEST_LEVEL=full"
    exit 0
fi
mkdir "$s/build"
ln -s "$(realpath "$programs")" "$s/build/bin"
BUILD=$s/build DEMO_ITERS=200 DEMO_LR=5e-4 timeout -k 10 600 scripts/demo.sh >"$s/demo" 2>&1
demo_status=$?
# A demo of 200 steps may end with the complaint that the loss has not fallen far; its training is what counts here.
fp32=$s/build/demo/checkpoints/metrics.jsonl
check_equal "the demo trains 200 steps" "$(losses "$fp32" 200 200 | wc -l)" 1
[[ $demo_status == 0 ]] || echo "# the demo ended with $demo_status: $(tail -n 1 "$s/demo")"
mapfile -t commands < <(sed -n 's/^ *\([^ ]*mpirun .* pretrain .*\)$/\1/p' "$s/demo")
check_equal "it prints its two commands" "${#commands[@]}" 2
mkdir "$s/bf16"
for command in "${commands[@]}"; do
    # The demo prints arguments without quotes; the one with a blank in it has none (--split 95,5,0).
    read -r -a words <<<"${command//$s\/build\/demo\/checkpoints/$s/bf16}"
    timeout -k 10 600 "${words[@]}" --bf16 >"$s/stdout" 2>"$s/stderr"
    check_equal "a half of it in bf16" "$?" 0
done
check_equal "it is bf16" "$(grep -c '^model .*, bf16$' "$s/stdout")" 1
# The loss is the mean over the ten steps since the last line; that of 4 x 8 validation samples is shown beside it.
at200() { "$1" "$2" "$3" | awk '$1 == 200 { print $1, $2 }'; }
bf16=$s/bf16/metrics.jsonl
check_close "the loss at step 200 is within 1 %" "$(at200 losses "$bf16" 200)" "$(at200 losses "$fp32" 200)" 0.01 1
awk '{ printf "# %s at step 200: bf16 %.4f, fp32 %.4f, %+.2f %%\n", $1, $2, $3, 100 * ($2 / $3 - 1) }' <<END
loss $(at200 losses "$bf16" 200 | cut -d ' ' -f 2) $(at200 losses "$fp32" 200 | cut -d ' ' -f 2)
validation_loss $(at200 evaluations "$bf16" validation | cut -d ' ' -f 2) $(at200 evaluations "$fp32" validation | cut -d ' ' -f 2)
END
