#!/bin/bash
# `trireme plan` as people use it: the article's 7B with a chart, a search, and each way to ask for too much.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
seven=(plan --config job_templates/configs/gpt-7b.cfg --world-size 8 --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 2)

run_well "the article's 7B" 1 "${seven[@]}" --machine h100 --draw "$s/gantt.svg"
check_contains "its layout and bubble" "$output" "8 ranks: TP 4 x PP 2 x DP 1, 1f1b with 16 micro-batches, bubble 5.9 %"
check_contains "its parameters" "$output" "number of parameters: 6.66B | per pipeline rank: 3.44B | per tensor rank: 866.11M"
check_contains "bytes a parameter" "$output" "16 bytes a parameter"
check_contains "times" "$output" "tokens/s a GPU"
check_equal "the chart has a box for each of 2 x 2 x 16 computes" "$(grep -c '<title>' "$s/gantt.svg")" 64
run_well "without a machine" 1 "${seven[@]}" --bf16 --draw "$s/units.svg"
check_contains "what they are" "$output" "bf16 weights 2, fp32 main gradients 4, master weights and moments 10"
check_contains "and the usual 18 beside it" "$output" "often 18: of fp32 master weights only what bf16 weights lack is kept"
run_well "the same under mpirun is said once" 2 "${seven[@]}"
check_equal "by one process" "$(grep -c '^layout' <<<"$output")" 1

printf '%s\n' '# half an H100' 'gpus_per_node = 8' 'memory_gib = 40' 'allowance_gib = 1' 'peak_tflops = 500' \
    'matmul_tflops = 350' 'matmul_fp32_tflops = 30' 'attention_forward_tflops = 450' 'attention_gradient_tflops = 350' \
    'attention_half_length = 700' 'attention_half_head = 39' 'memory_gb_per_s = 1500' 'kernel_us = 3' \
    'nvlink_gb_per_s = 200' 'nvlink_us = 25' 'network_gb_per_s = 20' 'network_us = 40' 'overlap_loss = 0.7' >"$s/half.cfg"
run_well "search" 1 plan --config job_templates/configs/gpt-7b.cfg --bf16 --search 16 --machine "$s/half.cfg"
check_contains "ranks layouts" "$output" "TP   PP   DP  schedule"
check_contains "and says why others lose" "$output" "% slower"
check_equal "TP stays inside a node" "$(grep -cE '^ +(16) +[0-9]+ +[0-9]+ ' <<<"$output")" 0

check_refused "a layout that does not fit" 1 6 "does not fit half: a rank of stage 0 needs|does not fit half" \
    "optimizer .*--use-distributed-optimizer" "${seven[@]}" --machine "$s/half.cfg" --bf16 \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1
check_refused "an unknown machine" 1 2 "there is no machine h1000" "a100-80gb, h100, h200" "${seven[@]}" --machine h1000
echo 'kernel_ms = 3' >>"$s/half.cfg"
check_refused "a machine file with a wrong key" 1 2 "half.cfg.*cannot be used" "there is no key kernel_ms" "${seven[@]}" \
    --machine "$s/half.cfg"
check_refused "a world that the layout does not divide" 1 2 "12 ranks do not fit TP 4 x PP 2" "8 or 16 ranks" \
    "${seven[@]}" --world-size 12
check_refused "a search without a machine" 1 2 "depend on the machine" "--machine h100" "${seven[@]}" --search 8
check_refused "an unknown vocabulary" 1 2 "size of the vocabulary is not known" "--vocab-size N" plan --config \
    job_templates/configs/llama3-8b.cfg --tokenizer-type HFTokenizerFile
run_trireme 1 "${seven[@]}" --draw "$s/nowhere/x.svg"
check_equal "a chart that cannot be written" "$status" 74
check_contains "names its file" "$errors" "nowhere/x.svg: No such file or directory"
check_refused "an option of plan elsewhere" 1 2 "--search is an option of trireme plan, not of pretrain" "" pretrain --search 8
