#!/bin/bash
# What people get wrong, from outside: each ends with its exit code and one message, printed once whatever the number of
# ranks, that names the thing and says what to do. (What a rank does that fails alone: rank_failure_test.cpp.)
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
data=tests/data/tiny
s=$scratch
save=(--save "$s/save")
absent=$s/absent

# refuse_tiny NAME RANKS CODE THING CURE ARGUMENTS...: tiny.cfg with something wrong in the arguments.
refuse_tiny() {
    local name=$1 ranks=$2 code=$3 thing=$4 cure=$5
    shift 5
    check_refused "$name" "$ranks" "$code" "$thing" "$cure" "${tiny[@]}" "${save[@]}" "$@"
}

# --- the command line
check_refused "no command" 2 2 "no command was given" "try: trireme --help"
check_refused "unknown command" 2 2 "no command pretrian" "try: trireme --help" pretrian --lr 1
refuse_tiny "ranks that do not fit" 6 2 "6 ranks do not fit TP 4 x PP 1: the number of ranks must be a multiple of 4" \
    "--tensor-model-parallel-size 4 \(command line\).*ranks 6.*try: 4 or 8 ranks" --tensor-model-parallel-size 4
refuse_tiny "heads that do not divide" 3 2 "4 attention heads cannot be shared by TP 3" \
    "tiny.cfg:[0-9]+.*try: --num-attention-heads" --tensor-model-parallel-size 3 --ffn-hidden-size 96
refuse_tiny "sequence longer than the positions" 2 2 "sequences of 33 tokens are longer than the 32 positions" \
    "try: --max-position-embeddings 33" --seq-length 33
refuse_tiny "unknown option" 2 2 "--num-layer-count is not an option of trireme pretrain" \
    "--num-layer-count 3 \(command line\)" --num-layer-count 3
refuse_tiny "abbreviation" 2 2 "--num-lay is not an option" "--num-layers" --num-lay 3
refuse_tiny "value that is no number" 1 2 "--lr .*'fast'" "--lr fast \(command line\)" --lr fast
refuse_tiny "all mistakes in one message" 2 2 "3 mistakes in the options" \
    "1\. .*micro-batch.*2\. .*--lr.*3\. .*num-lay" --micro-batch-size 0 --lr fast --num-lay 3
check_refused "missing options" 1 2 "--num-layers.* are missing" "--lr .*try: give them on the command line" \
    pretrain --device cpu
refuse_tiny "an option of another command" 1 2 "--prompt is an option of trireme generate" "" --prompt x

# --- the configuration file
check_refused "missing configuration file" 2 2 "cannot open $absent: No such file" "--config $absent" \
    pretrain --config "$absent"
{
    cat tests/configs/tiny.cfg
    printf 'save-interval 5\nhidden-size = 64\nhidden-sice = 64\nfinetune =\n'
} >"$s/mistakes.cfg"
last=$(wc -l <"$s/mistakes.cfg")
check_refused "mistakes in a configuration file" 2 2 "4 mistakes in the options" \
    "'save-interval 5' is not .name = value.*mistakes.cfg:$((last - 3)).*twice.*mistakes.cfg:$((last - 2)).*\
hidden-sice is not an option.*mistakes.cfg:$((last - 1)).*finetune has no value.*mistakes.cfg:$last" \
    pretrain --config "$s/mistakes.cfg"

# --- the tokenizer's files
refuse_tiny "missing vocabulary" 2 3 "cannot open $absent: No such file" "--vocab-file" --vocab-file "$absent"
refuse_tiny "missing merges" 2 3 "cannot open $absent: No such file" "--merge-file" --merge-file "$absent"
head -c 300 $data/vocab.json >"$s/cut.json"
refuse_tiny "vocabulary cut short" 1 3 "cut.json is not JSON" "--vocab-file" --vocab-file "$s/cut.json"
refuse_tiny "merges of another vocabulary" 1 3 "gpt2/merges.txt:[0-9]+: token .* is not in the vocabulary" \
    "--merge-file" --merge-file tests/data/gpt2/merges.txt

# --- the corpus
refuse_tiny "missing data" 2 3 "no dataset at $absent: $absent.idx does not exist" "trireme-data preprocess" \
    --data-path "$absent"
refuse_tiny "data with the ending" 1 3 "no dataset at $data/corpus_text_document.bin" \
    "try: the prefix without its ending, $data/corpus_text_document" --data-path $data/corpus_text_document.bin
# No sequences, no documents: header, version 1, type 8 (u16), 0 sequences, 1 boundary: 0.
printf 'MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$s/empty.idx"
: >"$s/empty.bin"
refuse_tiny "empty corpus" 2 3 "$s/empty is empty: 0 documents, 0 tokens" "try: .*preprocess" --data-path "$s/empty"
copy_corpus() {
    cp $data/corpus_text_document.bin "$s/$1.bin"
    cp $data/corpus_text_document.idx "$s/$1.idx"
}
copy_corpus cut_bin
truncate -s -100 "$s/cut_bin.bin"
refuse_tiny "tokens cut short" 2 3 "cut_bin.bin: cut short: 31842 bytes, but .*cut_bin.idx describes 31942" \
    "try: trireme-data preprocess" --data-path "$s/cut_bin"
copy_corpus cut_idx
truncate -s -100 "$s/cut_idx.idx"
refuse_tiny "index cut short" 2 3 "cut_idx.idx: damaged or cut short" "try: .*trireme-data preprocess again" --data-path "$s/cut_idx"
copy_corpus no_idx
printf 'garbage' | dd of="$s/no_idx.idx" conv=notrunc status=none
refuse_tiny "no index at all" 1 3 "no_idx.idx" "try: " --data-path "$s/no_idx"
refuse_tiny "split part without documents" 2 3 "corpus_text_document \(valid\) has no documents" \
    "--split 99.9,0.1,0 gives it 0 of [0-9]+ documents.*try: .*--split" --split 99.9,0.1,0
refuse_tiny "training without documents" 1 3 "corpus_text_document \(train\) has no documents" "try: .*--split" \
    --split 0,100,0
refuse_tiny "split that is none" 1 2 "--split .*90,x" "numbers" --split 90,x
refuse_tiny "corpus shorter than a sample" 2 3 "\(valid\) has [0-9]+ tokens: one sample takes 8001" \
    "try: a smaller --seq-length" --seq-length 8000 --max-position-embeddings 8000
# The corpus was made with 500 tokens, this vocabulary has 300: the ranks that read tokens find out in the middle of a step.
started 1 "$programs/trireme-data" train-bpe --input $data/corpus.jsonl --vocab-size 300 --vocab-file "$s/300.json" \
    --merge-file "$s/300.txt"
check_equal "a smaller vocabulary is made" "$status" 0
beyond="token id [34][0-9][0-9] in .*corpus_text_document.bin is outside the vocabulary of 300 tokens"
refuse_tiny "token id beyond the vocabulary" 1 3 "$beyond" "document [0-9]+, its token [0-9]+.*try: the tokenizer that the data were prepared with" \
    --vocab-file "$s/300.json" --merge-file "$s/300.txt"
refuse_tiny "token id beyond the vocabulary, 4 ranks" 4 3 "$beyond" "try: the tokenizer that the data were prepared with" \
    --vocab-file "$s/300.json" --merge-file "$s/300.txt" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2

# --- checkpoints
one_step=(--train-iters 1 --eval-iters 0 --lr-warmup-iters 0 --global-batch-size 4)
run_well "a checkpoint to spoil" 1 "${tiny[@]}" --save "$s/good" "${one_step[@]}"
spoilt() { # a copy of it
    rm -rf "$s/spoilt"
    cp -r "$s/good" "$s/spoilt"
}
spoilt
echo "iter_0000001" >"$s/spoilt/latest_checkpointed_iteration.txt"
marker=$s/spoilt/latest_checkpointed_iteration.txt
refuse_tiny "rubbish in the marker" 2 4 "$marker holds no iteration number" "it says 'iter_0000001'.*try: write the number" \
    --load "$s/spoilt"
: >"$marker"
refuse_tiny "empty marker" 1 4 "$marker holds no iteration number" "try: write the number" --load "$s/spoilt"
echo 7 >"$marker"
refuse_tiny "marker without its checkpoint" 2 4 "the checkpoint iter_0000007 in $s/spoilt cannot be loaded" \
    "iter_0000007/checkpoint.h5 is not there.*try: without --no-load-fallback" --load "$s/spoilt" --no-load-fallback
refuse_tiny "--ckpt-step without its checkpoint" 1 4 "the checkpoint iter_0000003 in $s/spoilt cannot be loaded" \
    "try: the number of another checkpoint" --load "$s/spoilt" --ckpt-step 3
run_well "marker without its checkpoint, an earlier one" 2 "${tiny[@]}" "${one_step[@]}" --load "$s/spoilt" --save "$s/fallback"
check_contains "it says that it falls back" "$errors" "trireme: WARNING: $s/spoilt/iter_0000001 is loaded in place of"
check_contains "it says why" "$errors" "iter_0000007/checkpoint.h5 is not there"
rm -r "$s/fallback"
refuse_tiny "checkpoint of another shape" 2 4 "good/iter_0000001 is of another model" \
    "\[500, 32\] in the checkpoint, \[500, 48\] by the options.*try: the options that it was trained with" \
    --load "$s/good" --hidden-size 48
refuse_tiny "checkpoint with fewer layers" 1 4 "good/iter_0000001 is of another model" "not in the checkpoint.*try: " \
    --load "$s/good" --num-layers 6
refuse_tiny "checkpoint with more layers" 1 4 "good/iter_0000001 is of another model" "the model by the options.*try: " \
    --load "$s/good" --num-layers 3
spoilt
truncate -s 20000 "$s/spoilt/iter_0000001/stage_000.h5"
refuse_tiny "stage file cut short" 2 4 "no checkpoint in $s/spoilt can be loaded" \
    "spoilt/iter_0000001/stage_000.h5.*try: a copy" --load "$s/spoilt"
rm "$s/spoilt/iter_0000001/stage_000.h5"
refuse_tiny "stage file missing" 1 4 "no checkpoint in $s/spoilt can be loaded" \
    "spoilt/iter_0000001/stage_000.h5.*try: a copy" --load "$s/spoilt"
spoilt
echo rubbish >"$s/spoilt/iter_0000001/checkpoint.h5"
refuse_tiny "index file damaged" 1 4 "no checkpoint in $s/spoilt can be loaded" \
    "spoilt/iter_0000001/checkpoint.h5.*try: a copy" --load "$s/spoilt"
refuse_tiny "no checkpoint, and that is refused" 2 4 "there is no checkpoint in $absent" \
    "try: another --load" --load "$absent" --exit-on-missing-checkpoint
for command in generate evaluate; do
    more=(--prompt x)
    [[ $command == generate ]] || more=()
    check_refused "$command without --load" 2 2 "--load.* (is|are) missing" "try: " $command \
        --config tests/configs/tiny.cfg "${more[@]}"
    check_refused "$command of a missing directory" 2 4 "there is no checkpoint in $absent" \
        "try: the --save directory" $command --config tests/configs/tiny.cfg --load "$absent" "${more[@]}"
    check_refused "$command of another vocabulary" 1 4 "good/iter_0000001 is of another model" "try: " $command \
        --load "$s/good" --config tests/configs/tiny.cfg --vocab-file "$s/300.json" --merge-file "$s/300.txt" "${more[@]}"
done
# Data that is damaged shows only when it is read: the same words as in training.
spoilt
run_well "a second checkpoint" 1 "${tiny[@]}" "${one_step[@]}" --train-iters 2 --load "$s/good" --save "$s/spoilt"
flip() { # FILE: a bit in the middle of the weights, which lie first
    printf "\\x$(printf %02x $(($(od -An -tu1 -j 40000 -N 1 "$1") ^ 16)))" | dd of="$1" bs=1 seek=40000 conv=notrunc status=none
}
flip "$s/spoilt/iter_0000002/stage_000.h5"
for command in generate evaluate; do
    more=(--config tests/configs/tiny.cfg --load "$s/spoilt")
    [[ $command != generate ]] || more+=(--prompt x --max-new-tokens 2)
    [[ $command != evaluate ]] || more+=(--split "0,1,0" --eval-iters 1)
    run_well "$command from damaged data, an earlier one" 2 $command "${more[@]}"
    check_contains "$command says that it falls back" "$errors" "trireme: WARNING: $s/spoilt/iter_0000001 is loaded in place of"
    check_contains "$command says why" "$errors" "iter_0000002: $s/spoilt/iter_0000002 is damaged; stage_000.h5 /"
    check_refused "$command from damaged data, falling back refused" 2 4 \
        "the checkpoint iter_0000002 in $s/spoilt cannot be loaded" \
        "iter_0000002 is damaged.*try: without --no-load-fallback" $command "${more[@]}" --no-load-fallback
done
flip "$s/spoilt/iter_0000001/stage_000.h5"
check_refused "evaluate, all damaged" 1 4 "no checkpoint in $s/spoilt can be loaded" "try: a copy" evaluate "${more[@]}"
# The options of the model came from the damaged one: the earlier weights were trained as another model.
spoilt
run_well "a second checkpoint, of another model" 1 "${tiny[@]}" "${one_step[@]}" --train-iters 2 --load "$s/good" --save "$s/spoilt" \
    --reset-attention-mask
check_contains "resuming as another model is said" "$output" \
    "the checkpoint was saved without --reset-attention-mask, this run trains with it"
flip "$s/spoilt/iter_0000002/stage_000.h5"
check_refused "falling back to another model" 2 4 "iter_0000002 is damaged, and the earlier iter_0000001 was trained as another model" \
    "iter_0000002 alone has reset-attention-mask.*try: --ckpt-step" evaluate "${more[@]}"
run_well "which --ckpt-step takes as what it is" 2 evaluate "${more[@]}" --ckpt-step 1

# --- output
: >"$s/file"
refuse_tiny "--save below a file" 2 74 "cannot create the directory $s/file/save: Not a directory" \
    "--save names it.*try: a directory that you may write to" --save "$s/file/save"
refuse_tiny "--save is a file" 1 74 "$s/file" "--save names it.*try: " --save "$s/file"
mkdir -m 555 "$s/locked"
as_user=()
[[ $(id -u) != 0 ]] || as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$s" TMPDIR=/tmp)
if [[ $(id -u) == 0 ]] && ! "${as_user[@]}" "$programs/trireme" info >/dev/null 2>&1; then
    echo "ok --save without rights # SKIP root, and another user cannot start the program"
else
    started 1 "${as_user[@]}" "$programs/trireme" "${tiny[@]}" --save "$s/locked"
    check_message "--save without rights" 74 "cannot write to $s/locked: Permission denied" "try: a directory"
    started 1 "${as_user[@]}" "$programs/trireme" "${tiny[@]}" --save "$s/locked/below"
    check_message "--save below one without rights" 74 "cannot create the directory $s/locked/below: Permission denied" \
        "try: a directory"
    cp $data/vocab.json "$s/vocab.json"
    chmod 000 "$s/vocab.json"
    mkdir -m 777 "$s/open"
    started 1 "${as_user[@]}" "$programs/trireme" "${tiny[@]}" --save "$s/open" --vocab-file "$s/vocab.json"
    check_message "vocabulary without rights" 3 "cannot open $s/vocab.json: Permission denied" "--vocab-file"
fi
# A disk that gets full while a checkpoint is written: a file system of 100 KiB, where one may be mounted.
mkdir "$s/disk"
in_namespace=(unshare --mount sh -c "mount -t tmpfs -o size=100k none '$s/disk' && \"\$@\"" sh)
if "${in_namespace[@]}" true 2>/dev/null; then
    started 1 "${in_namespace[@]}" sh -c "\"\$@\"; code=\$?; ls '$s/disk' >'$s/left'; exit \$code" sh \
        "${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" -np 2 "$programs/trireme" "${tiny[@]}" --save "$s/disk" "${one_step[@]}"
    check_message "full disk" 74 "no room for .* in $s/disk/iter_0000001.partial: .* are free" "try: free space"
    check_equal "full disk: no checkpoint is left or named" "$(grep -v last_exit "$s/left")" metrics.jsonl
else
    echo "ok full disk # SKIP a file system cannot be mounted here"
fi
# None of the refused runs has got as far as a checkpoint.
check_equal "nothing was saved" "$(find "$s/save" -name 'iter_*' 2>/dev/null)" ""
