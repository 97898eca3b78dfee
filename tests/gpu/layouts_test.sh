#!/bin/bash
# Two GPUs in bf16: each layout against one GPU, with the same bits when it runs again, and overlap with the bits of without.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
if [[ $(nvidia-smi -L 2>/dev/null | grep -c '^GPU') -lt 2 ]]; then
    echo "ok layouts of two GPUs # SKIP needs gpus: this machine has fewer than two"
    exit 0
fi
model=("${tiny[@]}" --hidden-size 256 --num-attention-heads 4 --train-iters 20 --eval-interval 20 --lr 1e-3 --min-lr 1e-4
    --params-dtype bf16 --device cuda)
run_well "one GPU" 1 "${model[@]}" --save "$s/one"
# The bound is that of bf16 against fp32 (training_test.sh): sums of partial products are rounded in other places.
check_layout() {
    local name=$1 folder=$2
    shift 2
    run_well "$name" 2 "${model[@]}" "$@" --save "$s/$folder"
    check_close "$name: losses within 0.5 % of one GPU" "$(losses "$s/$folder/metrics.jsonl" | cut -d ' ' -f 1,2)" \
        "$(losses "$s/one/metrics.jsonl" | cut -d ' ' -f 1,2)" 5e-3 20
    mkdir "$s/$folder.again" && cp "$s/$folder/matrix_algorithms.txt" "$s/$folder.again/"
    run_well "$name again" 2 "${model[@]}" "$@" --save "$s/$folder.again"
    check_same_bits "$name: the same bits again" "$(losses "$s/$folder.again/metrics.jsonl")" \
        "$(losses "$s/$folder/metrics.jsonl")" 20
}
zero1=(--use-distributed-optimizer --ddp-bucket-size 100000)
check_layout "TP 2 with sequence parallelism" tp --tensor-model-parallel-size 2 --sequence-parallel
check_layout "PP 2" pp --pipeline-model-parallel-size 2
check_layout "PP 2, zero bubble" zero_bubble --pipeline-model-parallel-size 2 --pipeline-schedule zb-h1
interleaved=(--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1)
check_layout "PP 2, interleaved" interleaved "${interleaved[@]}"
for queues in 1 8; do
    mkdir "$s/queues$queues" && cp "$s/pp/matrix_algorithms.txt" "$s/queues$queues/"
    CUDA_DEVICE_MAX_CONNECTIONS=$queues run_well "PP 2 on $queues hardware queues" 2 "${model[@]}" \
        --pipeline-model-parallel-size 2 --save "$s/queues$queues"
    check_same_bits "PP 2 on $queues hardware queues: the same bits" "$(losses "$s/queues$queues/metrics.jsonl")" \
        "$(losses "$s/pp/metrics.jsonl")" 20
done
CUDA_DEVICE_MAX_CONNECTIONS=1 check_refused "uneven groups of an interleaved pipeline on one queue" 2 2 \
    "CUDA_DEVICE_MAX_CONNECTIONS=1" "unset CUDA_DEVICE_MAX_CONNECTIONS" "${model[@]}" "${interleaved[@]}" --global-batch-size 3
check_layout "DP 2, ZeRO-1" dp "${zero1[@]}"
mkdir "$s/overlap" && cp "$s/dp/matrix_algorithms.txt" "$s/overlap/"
run_well "DP 2, overlapped" 2 "${model[@]}" "${zero1[@]}" --overlap-grad-reduce --overlap-param-gather --save "$s/overlap"
check_same_bits "DP 2, overlapped: the bits of without" "$(losses "$s/overlap/metrics.jsonl")" \
    "$(losses "$s/dp/metrics.jsonl")" 20
