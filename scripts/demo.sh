#!/bin/bash
# The whole way in a few minutes, without a GPU (`make demo`): text that this machine already has becomes a tokenizer
# and a data set, a small GPT learns from it on 4 MPI ranks as TP 2 x PP 2, stops half-way, goes on as
# TP 1 x PP 2 x DP 2 from the checkpoint, and continues a prompt.
#   DEMO_TEXT=DIR     learn from the text files below DIR instead of this machine's documentation
#   DEMO_ITERS=N      training steps in all (a multiple of 20; default 1600)
#   DEMO_LR=X         largest learning rate (default 2e-3)
#   DEMO_PROMPT=TEXT  what to continue
# Everything lands in build/demo and is replaced by the next demo.
set -euo pipefail

build=${BUILD:-build}
demo=$build/demo
mpirun=${MPIRUN:-mpirun}
iters=${DEMO_ITERS:-1600}
rate=${DEMO_LR:-2e-3}
prompt=${DEMO_PROMPT:-This program is free software}
# shellcheck source=scripts/mpi_environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/mpi_environment.sh"

fail() {
    echo "demo: $1" >&2
    exit 1
}
[[ $iters =~ ^[0-9]+$ && $iters -ge 40 && $((iters % 20)) == 0 ]] ||
    fail "DEMO_ITERS=$iters: a multiple of 20 from 40 up is meant"
half=$((iters / 2))
# A twentieth divides the half and the whole, so that both have a logged and an evaluated loss.
interval=$((iters / 20))
if [[ -n ${DEMO_TEXT:-} ]]; then
    [[ -d $DEMO_TEXT ]] || fail "DEMO_TEXT=$DEMO_TEXT is not a directory"
    text=("$DEMO_TEXT")
else
    # Prose first; code only where documentation was stripped from the machine, as in some container images.
    text=()
    for folder in /usr/share/common-licenses /usr/share/doc; do
        [[ ! -d $folder ]] || text+=("$folder")
    done
    for folder in /usr/share/perl /usr/share/perl5 /usr/share/info; do
        [[ ${#text[@]} -gt 0 && $(du -skc "${text[@]}" | tail -n 1 | cut -f 1) -gt 12000 ]] || [[ ! -d $folder ]] ||
            text+=("$folder")
    done
    [[ ${#text[@]} -gt 0 ]] || fail "no documentation below /usr/share; name a folder with text: make demo DEMO_TEXT=DIR"
fi
rm -rf "$demo"
mkdir -p "$demo"
checkpoints=$demo/checkpoints

# step TEXT COMMAND...: says what is done, runs it with its output kept in a log, and how long it took.
number=0
step() {
    local title=$1 start=$SECONDS
    shift
    number=$((number + 1))
    printf '\n[%d/6] %s\n      %s\n' "$number" "$title" "$*"
    "$@" 2>&1 | tee "$demo/step$number.log" | sed 's/^/      /' || fail "step $number failed (log: $demo/step$number.log)"
    echo "      ($((SECONDS - start)) s)"
}

step "collect text from ${text[*]}" \
    "$build/bin/trireme-data" collect --output "$demo/text.jsonl" --max-bytes 12000000 "${text[@]}"
step "learn a byte-level BPE of 4096 tokens" \
    "$build/bin/trireme-data" train-bpe --input "$demo/text.jsonl" --vocab-size 4096 \
    --vocab-file "$demo/vocab.json" --merge-file "$demo/merges.txt"
step "turn the text into tokens" \
    "$build/bin/trireme-data" preprocess --input "$demo/text.jsonl" --output-prefix "$demo/text" \
    --tokenizer-type GPT2BPETokenizer --vocab-file "$demo/vocab.json" --merge-file "$demo/merges.txt" --append-eod

model=(--num-layers 4 --hidden-size 192 --num-attention-heads 6 --seq-length 128 --max-position-embeddings 128
    --micro-batch-size 2 --global-batch-size 8 --hidden-dropout 0 --attention-dropout 0
    --lr "$rate" --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-iters 20 --weight-decay 0.01 --clip-grad 1.0
    --train-iters "$iters" --data-path "$demo/text_text_document" --split "95,5,0"
    --tokenizer-type GPT2BPETokenizer --vocab-file "$demo/vocab.json" --merge-file "$demo/merges.txt"
    --device cpu --log-interval "$interval" --eval-interval "$interval" --eval-iters 4 --save "$checkpoints" --load "$checkpoints" --save-interval "$half")
step "train on 4 ranks, tensor parallel 2 x pipeline parallel 2, and stop at step $half" \
    "$mpirun" "${MPIRUN_FLAGS[@]}" -np 4 "$build/bin/trireme" pretrain "${model[@]}" \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --exit-interval "$half"
step "go on from the checkpoint as pipeline parallel 2 x data parallel 2" \
    "$mpirun" "${MPIRUN_FLAGS[@]}" -np 4 "$build/bin/trireme" pretrain "${model[@]}" \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 2
step "continue a prompt with the trained model" \
    "$build/bin/trireme" generate --device cpu --load "$checkpoints" --prompt "$prompt" --max-new-tokens 60

metrics=$checkpoints/metrics.jsonl
[[ -s $metrics ]] || fail "$metrics was not written"
# One line of metrics.jsonl is one JSON object with numbers by name; a resumed run appends to it.
awk -v half="$half" -v iters="$iters" '
    function number(name) {
        if (!match($0, "\"" name "\": *[-+0-9.eE]+")) return ""
        value = substr($0, RSTART, RLENGTH)
        sub(/^"[^"]*": */, "", value)
        return value + 0
    }
    {
        step = number("iteration")
        if (step == "") next
        loss = number("lm loss")
        if (loss != "") {
            if (first == "") { first = loss; first_step = step }
            if (step <= half) { middle = loss; middle_step = step }
            last = loss; last_step = step
        }
        valid = number("validation loss")
        if (valid != "") {
            if (first_valid == "") { first_valid = valid; first_valid_step = step }
            if (step <= half) middle_valid = valid
            last_valid = valid
        }
        rate = number("tokens per second")
        if (rate != "") { if (step <= half) { rate1 += rate; n1++ } else { rate2 += rate; n2++ } }
    }
    END {
        print ""
        printf "  %-26s %10s %12s %17s %10s\n", "", "iteration", "train loss", "validation loss", "tokens/s"
        printf "  %-26s %10d %12.4f %17s %10s\n", "start", first_step, first, sprintf("%.4f (%d)", first_valid, first_valid_step), ""
        printf "  %-26s %10d %12.4f %17.4f %10.0f\n", "switch (TP 2 x PP 2)", middle_step, middle, middle_valid, n1 ? rate1 / n1 : 0
        printf "  %-26s %10d %12.4f %17.4f %10.0f\n", "end    (PP 2 x DP 2)", last_step, last, last_valid, n2 ? rate2 / n2 : 0
        print ""
        if (last_step != iters) { printf "demo: the last step in the metrics is %d, not %d\n", last_step, iters; exit 1 }
        if (!(last < 0.6 * first)) { printf "demo: the loss fell to %.1f %% of the first only\n", 100 * last / first; exit 1 }
        printf "  the loss fell to %.1f %% of the first\n", 100 * last / first
    }' "$metrics" || fail "this is not the result that was expected; logs: $demo/step*.log"
cat <<END
  text        $demo/text.jsonl; tokenizer: vocab.json and merges.txt beside it
  checkpoints $checkpoints; metrics, one JSON object a line: $metrics
  took        $((SECONDS / 60)) min $((SECONDS % 60)) s

  try next    make demo DEMO_TEXT=DIR                 your own text
              $build/bin/trireme generate --load $checkpoints --prompt "The"
              $build/bin/trireme pretrain --help      all options, named as in Megatron-LM
END
