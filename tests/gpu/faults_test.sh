#!/bin/bash
# What goes wrong on GPUs, from outside: no GPU, too little memory, a network that is not there, a rank that dies in a step.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
on_gpu=("${tiny[@]}" --device cuda --params-dtype bf16)
if [[ $gpus == 0 ]]; then
    echo "ok what goes wrong on GPUs # SKIP needs gpus: this machine has none"
    exit 0
fi
CUDA_VISIBLE_DEVICES='' check_refused "no GPU" 1 6 "look for GPUs" "a node with a GPU" "${on_gpu[@]}" --save "$s/none"

# 24 G parameters: the plan says that they do not fit, before anything is taken.
big=(--num-layers 40 --hidden-size 7168 --num-attention-heads 56 --seq-length 2048 --max-position-embeddings 2048)
SECONDS=0
check_refused "too little memory" 1 6 "memory" "smaller --micro-batch-size|more" "${on_gpu[@]}" "${big[@]}" --save "$s/big"
check_equal "too little memory is said within 60 s" "$((SECONDS < 60))" 1

if [[ $gpus -lt 2 ]]; then
    echo "ok two ranks on GPUs # SKIP needs gpus: this machine has fewer than two"
    exit 0
fi
NCCL_SOCKET_IFNAME="=nowhere0" check_refused "a network interface that is not there" 2 5 "NCCL could not" \
    "NCCL_SOCKET_IFNAME \(it is =nowhere0" "${on_gpu[@]}" --save "$s/network"

# dies NAME ARGUMENTS...: the second rank is killed in a step, and the launcher leaves the first alone.
dies() {
    local name=$1 mpi ranks _
    shift
    : >"$s/stdout" # not the last run's
    timeout -k 10 "$hang" "${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" --enable-recovery -np 2 "$programs/trireme" "${on_gpu[@]}" \
        --hidden-size 256 --train-iters 100000 --save "$s/$name" "$@" \
        >"$s/stdout" 2>"$s/stderr" </dev/null &
    mpi=$!
    for _ in {1..3000}; do
        grep -q "iteration       20/" "$s/stdout" && break
        kill -0 "$mpi" 2>/dev/null || break
        sleep 0.02
    done
    # mpirun is below timeout, and the ranks below mpirun.
    read -ra ranks <<<"$(cat /proc/"$(tr -d ' ' <"/proc/$mpi/task/$mpi/children")"/task/*/children 2>/dev/null | tr '\n' ' ')"
    if [[ ${#ranks[@]} != 2 ]]; then
        wait "$mpi"
        not_ok "$name: two ranks run" "$(head -c 800 "$s/stderr")"
        return
    fi
    SECONDS=0
    kill -KILL "${ranks[1]}"
    wait "$mpi"
    errors=$(<"$s/stderr")
    check_equal "$name, a rank dies: all have ended within 60 s" "$((SECONDS < 60))" 1
    check_contains "$name, a rank dies: it is named" "$errors" "error: the job is being ended, and rank 1 ("
    check_contains "$name, a rank dies: the other's phase, too" "$errors" "rank 0 was in phase '"
    check_equal "$name, a rank dies: one message" "$(grep -c 'trireme: error: ' "$s/stderr")" 1
}
dies "DP 2" --use-distributed-optimizer
dies "PP 2" --pipeline-model-parallel-size 2
