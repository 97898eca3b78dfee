#!/bin/bash
# --fp16 from outside: the loss scale falls and grows as its rules say, skipped steps leave weights and learning rate
# where they were, the counts stand in the log, all of it goes on after a stop with the same bits, and gradients that
# overflow at the lowest scale end the run.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
fp16=("${tiny[@]}" --params-dtype fp16 --initial-loss-scale 67108864 --loss-scale-window 4 --hysteresis 2)
# iteration, skipped so far, loss scale, learning rate, lm loss of each step
steps() {
    sed -n 's/^{"iteration": \([0-9]*\), .*"lm loss": \([^,]*\), .*"learning rate": \([^,]*\), .*"loss scale": \([^,]*\), "skipped iterations": \([0-9]*\), .*$/\1 \5 \4 \3 \2/p' "$1"
}
# Holds the rows of steps() against the rules: initial 2^26, halved at the second overflow and at each after it, doubled
# after four good steps in a row, which gives patience again; learning rate as in tiny.cfg (two warm-up steps of 20,
# cosine from 5e-3 to 5e-4) at the samples of good steps.
follows_the_rules() {
    awk 'function rate(n) { # good steps before this one
            if (n <= 2) return 5e-3 * n / 2
            return 5e-4 + (cos(3.14159265358979 * (n - 2) / 18) + 1) / 2 * 4.5e-3
        }
        BEGIN { scale = 2 ^ 26; patience = 2 }
        {
            expected = rate(good)
            if ($4 - expected > 1e-9 || expected - $4 > 1e-9) { print "step " $1 ": learning rate " $4 ", wanted " expected; exit }
            if ($2 > skipped) {
                skipped++; row = 0; patience--
                if (patience <= 0) scale /= 2
            } else {
                good++
                if (++row == 4) { row = 0; scale *= 2; patience = 2 }
            }
            if ($3 != scale) { print "step " $1 ": loss scale " $3 ", wanted " scale; exit }
            if ($2 != skipped) { print "step " $1 ": " $2 " skipped, wanted " skipped; exit }
            count++
        }
        END { print count + 0, skipped + 0, (good > 0 && skipped > 0) }' "$1"
}

run_well "20 steps" 2 "${fp16[@]}" --tensor-model-parallel-size 2 --save "$s/whole"
steps "$s/whole/metrics.jsonl" >"$s/steps"
read -r count skipped both < <(follows_the_rules "$s/steps")
check_equal "scale and learning rate follow the rules over 20 steps" "$count" 20
check_equal "there were good steps and skipped ones" "$both" 1
last=$(grep '^ \[.*iteration       20/' "$s/stdout")
check_contains "the log shows the scale" "$last" "| loss scale: $(awk 'END { printf "%.1f", $3 }' "$s/steps") |"
check_contains "and the skipped steps, none of them NaN" "$last" \
    "| number of skipped iterations: $(printf '%3d' "$skipped") | number of nan iterations:   0 |"
# The same samples through the same weights: two skipped steps at the start have the losses of the initial model, which
# differ by their samples only; what matters is that the loss of a skipped step is shown, and finite.
check_equal "losses of skipped steps are finite" "$(awk '$5 !~ /^[0-9.e+-]+$/' "$s/steps")" ""

# fp32 masters: fp16 trains what fp32 trains, the skipped steps apart. With a scale that never overflows nothing is
# skipped, and the losses of 20 steps are fp32's to a few roundings of 11 bits.
run_well "a fixed scale" 1 "${tiny[@]}" --params-dtype fp16 --loss-scale 1024 --save "$s/fixed"
run_well "fp32" 1 "${tiny[@]}" --params-dtype fp32 --save "$s/fp32"
check_close "fp16 is near fp32" "$(losses "$s/fixed/metrics.jsonl" | cut -d ' ' -f 1,2)" \
    "$(losses "$s/fp32/metrics.jsonl" | cut -d ' ' -f 1,2)" 2e-3 20
check_equal "the fixed scale stays" "$(steps "$s/fixed/metrics.jsonl" | cut -d ' ' -f 2,3 | sort -u)" "0 1024"

# Stopped in the middle of a row and with patience half used up: the same bits, scale and counts after it.
for at in 5 9; do
    run_well "stop at $at" 2 "${fp16[@]}" --tensor-model-parallel-size 2 --save "$s/$at" --exit-interval "$at"
    run_well "go on from $at" 2 "${fp16[@]}" --tensor-model-parallel-size 2 --save "$s/$at" --load "$s/$at"
    check_equal "from $at: the same steps" "$(steps "$s/$at/metrics.jsonl")" "$(<"$s/steps")"
    check_same_bits "from $at: the same losses and norms" "$(losses "$s/$at/metrics.jsonl")" \
        "$(losses "$s/whole/metrics.jsonl")" 20
done
check_refused "gradients that overflow at the lowest scale" 1 7 "not finite in iteration 1" \
    "at the lowest loss scale 1.09951e\+12.*try: " "${tiny[@]}" --params-dtype fp16 \
    --initial-loss-scale 1099511627776 --min-loss-scale 1099511627776 --save "$s/refused"
