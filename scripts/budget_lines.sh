#!/bin/bash
# Writes the budget of each model file that says "# N GPUs": what `trireme plan` predicts for that many GPUs of a machine,
# as one line `# Budget: ...` below it. Run it when files, the planner or its machines have changed.
#     scripts/budget_lines.sh [MACHINE [FILE...]]          default: h100, job_templates/configs/*.cfg
set -euo pipefail
program=${BUILD:-build}/bin/trireme
machine=${1:-h100}
shift || true
files=("$@")
[[ ${#files[@]} -gt 0 ]] || files=(job_templates/configs/*.cfg)
for file in "${files[@]}"; do
    gpus=$(sed -n 's/^# \([0-9]\+\) GPUs.*/\1/p' "$file" | head -n 1)
    if [[ -z $gpus ]]; then
        echo "$file: no line \"# N GPUs\", left alone"
        continue
    fi
    # The number behind "vocabulary of", which may stand on the next line.
    vocabulary=$(sed -n '/^#/p' "$file" | tr -d '#\n' | sed -n 's/.*vocabulary of *\([0-9]\+\).*/\1/p')
    plan=$("$program" plan --config "$file" --world-size "$gpus" --vocab-size "$vocabulary" --machine "$machine")
    speed=$(sed -n 's/.* \([0-9.]\+\) tokens\/s a GPU.*/\1/p' <<<"$plan")
    hours=$(sed -n 's/^budget .* tokens: \([0-9.]\+\) h on.*/\1/p' <<<"$plan")
    if [[ -z $speed || -z $hours ]]; then
        echo "$file: trireme plan tells no speed or no hours (is --train-iters or --train-samples there?)" >&2
        exit 1
    fi
    line="# Budget: $gpus x $machine, $hours h, $speed tokens/s a GPU (predicted by trireme plan)."
    kept=$(grep -v '^# Budget: ' "$file")
    awk -v line="$line" '{ print } !done && /^# [0-9]+ GPUs/ { print line; done = 1 }' <<<"$kept" >"$file.new"
    mv "$file.new" "$file"
    echo "$file: $line"
done
