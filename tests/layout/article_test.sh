#!/bin/bash
# The command of the article that Trireme starts from, verbatim: at full size as far as its files, which are not here, and
# shrunk to a CPU by overriding sizes and paths, nothing else.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
article=(pretrain --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048
    --max-position-embeddings 2048 --micro-batch-size 1 --gradient-accumulation-steps 16 --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 2 --lr 1.5e-4 --train-iters 100000 --lr-decay-style cosine --min-lr 1e-5
    --weight-decay 0.1 --clip-grad 1.0 --data-path /data/train.jsonl --tokenizer-type GPT2BPETokenizer
    --vocab-file /data/vocab.json --merge-file /data/merges.txt --split "98,2,0" --log-interval 10 --save-interval 1000
    --eval-interval 1000 --eval-iters 10 --save /checkpoints --load /checkpoints)

if [[ -e /data/vocab.json ]]; then
    echo "ok full size, the first thing missing is the vocabulary # SKIP this machine has /data/vocab.json"
else
    check_refused "full size, the first thing missing is the vocabulary" 8 3 \
        "cannot open /data/vocab.json: No such file" "--vocab-file" "${article[@]}"
fi
check_refused "full size, on too few ranks" 6 2 "6 ranks do not fit TP 4 x PP 2: .* a multiple of 8" "try: 8 ranks" \
    "${article[@]}"

# The same names, smaller numbers: the last value of an option counts.
shrunk=("${article[@]}" --device cpu --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --max-position-embeddings 32 --train-iters 6 --log-interval 2 --save-interval 4 --eval-interval 4 --eval-iters 1
    --data-path tests/data/tiny/corpus_text_document --vocab-file tests/data/tiny/vocab.json
    --merge-file tests/data/tiny/merges.txt --split "90,10,0" --save "$s/run" --load "$s/run")
run_well "shrunk, on eight ranks" 8 "${shrunk[@]}"
check_contains "global batch = 1 x DP 1 x 16" "$output" "global batch size:    16 |"
check_contains "a fresh start into an empty directory says so" "$output" "no checkpoint in $s/run: starting from scratch"
check_equal "logged at 1, 2, 4 and 6" "$(losses "$s/run/metrics.jsonl" | cut -d ' ' -f 1 | tr '\n' ' ')" "1 2 4 6 "
check_equal "saved at 4 and at the end" "$(cd "$s/run" && echo iter_*)" "iter_0000004 iter_0000006"
check_equal "evaluated at 4 and at the end" "$(evaluations "$s/run/metrics.jsonl" validation | cut -d ' ' -f 1 | tr '\n' ' ')" "4 6 "
run_well "the same command again goes on" 8 "${shrunk[@]}" --train-iters 8
check_contains "from the last checkpoint" "$output" "resume    $s/run/iter_0000006 (saved at TP 4 x PP 2 x DP 1)"
check_equal "to the end" "$(cat "$s/run/latest_checkpointed_iteration.txt")" 8

# Its cures for full memory and for a slow loader.
run_well "with the article's other options" 4 "${shrunk[@]}" --tensor-model-parallel-size 2 --load "$s/none" \
    --save "$s/more" --recompute-activations --dataloader-type cyclic --num-workers 8 --train-iters 2
check_close "they change no loss (fp32: 2e-5)" "$(losses "$s/more/metrics.jsonl" 1 2)" "$(losses "$s/run/metrics.jsonl" 1 2)" 2e-5 2
