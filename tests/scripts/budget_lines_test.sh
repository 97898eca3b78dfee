#!/bin/bash
# scripts/budget_lines.sh writes the planner's budget below the line that names the GPUs, once however often it runs.
# shellcheck source=tests/support/shell_test.sh
. tests/support/shell_test.sh
if [[ ! -x ${BUILD:-build}/bin/trireme ]]; then
    echo "ok budget lines # SKIP needs build: there is no ${BUILD:-build}/bin/trireme"
    exit 0
fi
file=$scratch/model.cfg
{
    printf '%s\n' '# A model with a vocabulary of' '# 50257.' '# 8 GPUs, TP 4 and 2 stages:' '#     sbatch model' 'bf16 = true'
    grep -v '^#\|^bf16' job_templates/configs/gpt-7b.cfg
} >"$file"
cp "$file" "$scratch/before.cfg"
for _ in 1 2; do scripts/budget_lines.sh h100 "$file" >"$scratch/said" || not_ok "runs" "$(<"$scratch/said")"; done
if [[ $(sed -n 4p "$file") =~ ^"# Budget: 8 x h100, "[0-9.]+" h, "[0-9.]+" tokens/s a GPU (predicted by trireme plan)."$ ]]; then
    ok "the line stands below the GPUs"
else
    not_ok "the line stands below the GPUs" "$(head -n 6 "$file")"
fi
if diff "$scratch/before.cfg" <(sed 4d "$file") >"$scratch/difference"; then
    ok "nothing else has changed after two runs"
else
    not_ok "nothing else has changed after two runs" "$(<"$scratch/difference")"
fi
