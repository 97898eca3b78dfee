#!/bin/bash
# What a job does when it is warned, cancelled, or loses a node: it saves, queues itself again where that helps, goes on from
# where it was, and ends with the bits of a run that nobody disturbed.
# shellcheck source=tests/support/slurm_test.sh
. tests/support/slurm_test.sh
if [[ $level != full ]]; then
    echo "ok requeue # SKIP it takes minutes: make test-slurm runs it"
    exit 0
fi
tp2=(--tensor-model-parallel-size 2)

# endless NAME: a configuration for a run that goes on until it is told otherwise. The schedule of the learning rate does not
# depend on how long it is.
endless() {
    sed "s|= \.\./|= $PWD/tests/|; s|^save *=.*|save = $s/$1|; s|^train-iters.*|train-iters = 1000000|
        s|^eval-interval.*||; s|^eval-iters.*|eval-iters = 0|; s|^data-path|save-interval = 20\nlr-decay-iters = 200\ndata-path|" tests/configs/tiny.cfg >"$s/$1.cfg"
}
# let_it_end NAME: from its checkpoint on it does five more steps and is complete. Sets last.
let_it_end() {
    last=$(($(<"$s/$1/latest_checkpointed_iteration.txt") + 5))
    sed -i "s|^train-iters.*|train-iters = $last|" "$s/$1.cfg"
}
# all_losses NAME: each iteration up to the last as it was last computed (a lost node may have been further than its checkpoint).
all_losses() {
    losses "$s/$1/metrics.jsonl" 1 "$last" | awk '{line[$1] = $0; if ($1 > last) last = $1} END {for (i = 1; i <= last; i++) print line[i]}'
}
# undisturbed NAME RANKS OPTION...: the same configuration under mpirun, in one go, in $s/NAME.whole.
undisturbed() { run_well "$1: undisturbed" "$2" pretrain --config "$s/$1.cfg" --save "$s/$1.whole" "${@:3}"; }
log_says() { check_contains "$1: $2" "$(<"$s/$1.log")" "$3"; }
last_exit() { sed -n "s/^$2=//p" "$s/$1/last_exit" | tr '\n' ' '; }
under_way() { wait_for 90 reaches "$s/$1/metrics.jsonl" "$2"; }

# --- the warning before the time limit (-t 1: a minute; USR1 45 s before its end)
endless limit
submit limit -N2 --ntasks-per-node=2 -t 1 --signal=B:USR1@45 "$templates/pretrain.sbatch" "$s/limit.cfg" "${tp2[@]}"
check_equal "limit: it queues itself again" "$(queued_again "$job" 1)" "PENDING 1"
log_says limit "why" "attempt 0 ended with exit code 75 at iteration $(<"$s/limit/latest_checkpointed_iteration.txt") (signal USR1)"
let_it_end limit
restart "$job"
check_equal "limit: it ends well" "$(finished "$job")" "COMPLETED 0:0"
log_says limit "one log for both" "attempt 1: 2 nodes x 2 ranks x 4 cores on node[1-2], from iteration $((last - 5)) in $s/limit"
undisturbed limit 4 "${tp2[@]}"
check_same_bits "limit: the bits of a run in one go" "$(all_losses limit)" "$(losses "$s/limit.whole/metrics.jsonl")" "$last"

# --- a node fails in mid-step of a job that may have one or two: it goes on with half the DP size
endless node
submit node -N1-2 --gpus-per-node=2 "$templates/pretrain.sbatch" "$s/node.cfg" "${tp2[@]}"
under_way node 25
log_says node "first on two" "layout    4 ranks on 2 nodes: TP 2 x PP 1 x DP 2"
lose_node node2
check_equal "node: Slurm queues the job again" "$(queued_again "$job" 1)" "PENDING 1"
let_it_end node
restart "$job"
check_equal "node: it ends well" "$(finished "$job")" "COMPLETED 0:0"
log_says node "then on one" "attempt 1: 1 nodes x 2 ranks x 4 cores on node1, from iteration $((last - 5))"
log_says node "half the DP size" "layout    2 ranks on 1 node: TP 2 x PP 1 x DP 1"
undisturbed node 1
check_close "node: the losses of a run in one go, on another layout (fp64)" "$(all_losses node)" \
    "$(losses "$s/node.whole/metrics.jsonl")" 1e-10 "$last"
start_node node2
check_equal "node: it is back" "$(wait_for 30 idle_nodes 2 && echo yes)" yes

# --- scancel: it saves, and is not queued again
endless cancel
submit cancel -N2 --ntasks-per-node=2 "$templates/pretrain.sbatch" "$s/cancel.cfg" "${tp2[@]}"
under_way cancel 3
scancel "$job"
check_contains "cancel: its state" "$(finished "$job")" "CANCELLED"
wait_for 30 idle_nodes 2
check_equal "cancel: it saved where it stood" "$(last_exit cancel iteration)" "$(<"$s/cancel/latest_checkpointed_iteration.txt") "
check_equal "cancel: because of" "$(last_exit cancel reason)$(last_exit cancel signal)" "signal TERM "
check_equal "cancel: never queued again" "$(field "$job" Restarts)" 0

# --- a job that may not be queued again says how to go on
endless once
submit once -N2 --ntasks-per-node=2 --no-requeue "$templates/pretrain.sbatch" "$s/once.cfg" "${tp2[@]}"
under_way once 3
scancel --batch --signal=USR1 "$job"
check_equal "once: exit code 75 through sbatch" "$(finished "$job")" "FAILED 75:0"
log_says once "how to go on" "Slurm does not queue this job again; submit the same command to go on"

# --- a chain of jobs, each of three seconds
endless chain
echo 'exit-duration-in-mins = 0.05' >>"$s/chain.cfg"
submit chain -N2 --ntasks-per-node=2 --array=1-5%1 "$templates/pretrain-array-chain.sbatch" "$s/chain.cfg" "${tp2[@]}"
wait_for 90 grep -q 'attempt 0 ended with exit code 75' "$s/chain.log"
let_it_end chain
wait_for 90 grep -q 'ended with exit code 0' "$s/chain.log"
wait_for 30 idle_nodes 2
log_says chain "the second piece goes on" "piece 2: 2 nodes x 2 ranks x 4 cores"
check_equal "chain: none was left when it was complete" "$(squeue -h -j "$job" 2>/dev/null | wc -l) $(grep -c 'piece 5' "$s/chain.log")" "0 0"
