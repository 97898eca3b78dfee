#!/bin/bash
# tests/bench/article_run.py does on eight small CPU ranks what it does on eight GPUs: layouts beside what the planner
# foresees, a checkpoint from one layout to another, a killed rank.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
if [[ $level != full ]]; then
    echo "ok article run # SKIP it takes a minute: make test-all runs it"
    exit 0
fi
if ! "${PYTHON:-python3}" -c '' 2>/dev/null; then
    echo "ok article run # SKIP needs python3"
    exit 0
fi
script=(timeout 280 "${PYTHON:-python3}" tests/bench/article_run.py)
output=$("${script[@]}" --trireme "$programs/trireme" --mpirun "${MPIRUN:-mpirun} ${MPIRUN_FLAGS[*]}" --model tiny --device cpu \
    --results "$scratch/results.jsonl" one-gpu tp4-pp2-interleaved checkpoint killed-rank 2>&1)
status=$?
if [[ $status == 0 ]]; then ok "all rows run"; else not_ok "all rows run" "exit code $status" "$output"; fi
check_equal "and are recorded" "$(grep -c '"row":' "$scratch/results.jsonl")" 4
# fp32 in another order of sums; a wrong tensor anywhere moves the loss by more.
difference=$(sed -n 's/.*"largest difference": \([0-9.e-]*\),.*/\1/p' "$scratch/results.jsonl")
check_equal "losses go on at another layout" "$(awk -v d="$difference" 'BEGIN {print (d != "" && d < 1e-5) ? "close" : d}')" close
output=$("${script[@]}" --report "$scratch/results.jsonl")
check_contains "the table has the layouts" "$output" "| tp4-pp2-interleaved | "
check_contains "and how eight compare with one" "$output" "of eight times one GPU (floor 92 %)"
check_contains "the killed rank is named" "$output" "rank 5"
output=$("${script[@]}" no-such-row 2>&1)
check_equal "an unknown row is refused" "$? ${output%%$'\n'*}" "1 article-run: there is no row no-such-row"
