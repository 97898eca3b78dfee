#!/bin/bash
# `trireme checkpoint ...` as people use it: what it prints, its exit codes, and one message for everything that can be
# wrong with the files that it is given.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
models=tests/oracle/data/transformers
tools() { run_trireme 1 checkpoint "$@"; }
# refused NAME CODE THING CURE ARGUMENTS...
refused() {
    local name=$1 code=$2 thing=$3 cure=$4
    shift 4
    check_refused "$name" 1 "$code" "$thing" "$cure" checkpoint "$@"
}

# --- the command line
refused "no sub-command" 2 "no command was given after checkpoint" "try: trireme checkpoint --help"
refused "unknown sub-command" 2 "there is no command checkpoint inspekt" "try: trireme checkpoint --help" inspekt x
refused "nothing to inspect" 2 "trireme checkpoint inspect takes PATH, not nothing" "--help" inspect
refused "one checkpoint to compare" 2 "checkpoint diff takes A B, not 'x'" "--help" diff x
refused "import without --save" 2 "--save is missing" "try: " import-hf x
refused "export without --load" 2 "--load is missing" "try: " export-hf x
refused "an option of a run" 2 "--lr is an option of trireme pretrain" "" inspect x --lr 1
refused "a size that is none" 2 "--max-shard-size is a size" "5GB or 500MiB" export-hf x --load y --max-shard-size many
tools --help
check_contains "help of the family" "$output" "import-hf DIR"
tools inspect --help
check_contains "help of a tool" "$output" "usage: trireme checkpoint inspect PATH"
check_lacks "help of a tool has nothing of runs" "$output" "--lr"

# --- inspect and diff: the same training on two layouts
steps=(--train-iters 2 --eval-iters 0 --lr-warmup-iters 0 --global-batch-size 4 --hidden-dropout 0 --attention-dropout 0)
run_well "a checkpoint of one rank" 1 "${tiny[@]}" --save "$s/one" "${steps[@]}" --params-dtype fp64
run_well "the same at TP 2" 2 "${tiny[@]}" --save "$s/two" "${steps[@]}" --params-dtype fp64 --tensor-model-parallel-size 2
tools inspect "$s/one"
check_equal "inspect" "$status" 0
check_contains "inspect shows the iteration" "$output" "iteration  2, consumed samples 8"
check_contains "inspect shows the options" "$output" "hidden-size = 32"
check_contains "inspect shows tensors" "$output" "[500, 32]"
check_lacks "inspect does not read the tensors" "$output" "norm 1"
tools inspect --norms "$s/one/iter_0000002"
norms=$(grep -c ' norm [0-9.e+-]* *from -*[0-9.e+-]* *to -*[0-9.e+-]*$' <<<"$output")
check_equal "inspect --norms reads all tensors of weights and moments" "$norms" $((3 * 68))
tools diff "$s/one" "$s/one"
check_equal "a checkpoint is equal to itself" "$status" 0
check_lacks "and nothing differs" "$output" "largest difference"
tools diff "$s/one" "$s/two"
check_equal "other options differ" "$status" 1
check_contains "diff names the option" "$output" "tensor-model-parallel-size: 1 | 2"
largest=$(sed -n 's/.*largest difference \([^ ]*\) at .*/\1/p' <<<"$output" | sort -g | tail -n 1)
# Sums in another order: fp64 rounding, on weights of size 0.1.
check_equal "the weights of two layouts are close" "$(awk -v d="${largest:-0}" 'BEGIN{print (d + 0 <= 1e-12) ? "close" : d}')" close
run_well "a model of another width" 1 "${tiny[@]}" --save "$s/wide" "${steps[@]}" --hidden-size 48 --no-save-optim
tools diff "$s/one" "$s/wide"
check_equal "another shape differs" "$status" 1
check_contains "diff names both shapes" "$output" "embedding.word.weight: [500, 32] | [500, 48]"
check_contains "diff names groups that are missing" "$output" "first_moment: only in A"

# --- checkpoints that are none
absent=$s/absent
for tool in inspect verify; do
    refused "$tool nothing" 4 "there is no checkpoint in $absent" "try: a --save directory" $tool "$absent"
done
mkdir "$s/empty"
refused "inspect an empty directory" 4 "there is no checkpoint in $s/empty" "try: a --save directory" inspect "$s/empty"
refused "diff with nothing" 4 "there is no checkpoint in $absent" "try: a --save directory" diff "$s/one" "$absent"
spoilt() {
    rm -rf "$s/spoilt"
    cp -r "$s/one" "$s/spoilt"
}
spoilt
echo rubbish >"$s/spoilt/iter_0000002/checkpoint.h5"
refused "inspect a damaged index" 4 "spoilt/iter_0000002/checkpoint.h5" "try: " inspect "$s/spoilt"
spoilt
rm "$s/spoilt/iter_0000002/stage_000.h5"
refused "inspect without the stage file" 4 "spoilt/iter_0000002/stage_000.h5" "try: " inspect "$s/spoilt"
spoilt
truncate -s 20000 "$s/spoilt/iter_0000002/stage_000.h5"
refused "export of a cut stage file" 4 "stage_000.h5" "try: " export-hf "$s/out" --load "$s/spoilt"
spoilt
cp "$s/wide/iter_0000002/stage_000.h5" "$s/spoilt/iter_0000002/"
refused "a stage file of another model" 4 "iter_0000002 in $s/spoilt cannot be loaded" "is not what checkpoint.h5 says.*try: one of its" inspect "$s/spoilt"

# --- verify
run_well "a second checkpoint beside it" 1 "${tiny[@]}" --save "$s/many" "${steps[@]}" --save-interval 1
tools verify "$s/many"
check_equal "verify goes through a directory" "$status $(grep -c 'good: 204 datasets, 1.6 MiB, all sums agree' "$scratch/stdout")" \
    "0 $(ls -d "$s"/many/iter_* | wc -l)"
tools verify "$s/many/iter_0000002"
check_equal "verify of one" "$status $(wc -l <"$scratch/stdout")" "0 1"
rm -rf "$s/spoilt"
cp -r "$s/many" "$s/spoilt"
stage=$s/spoilt/iter_0000001/stage_000.h5
printf '\x5a' | dd of="$stage" bs=1 seek=$(($(stat -c %s "$stage") / 2)) conv=notrunc status=none
refused "verify names the tensor and its range" 4 "1 of 2 checkpoints in $s/spoilt is damaged" \
    "iter_0000001 stage_000.h5 /.* elements 0 to [0-9]+: .*try: an earlier checkpoint" verify "$s/spoilt"
check_contains "and says which are good" "$(<"$scratch/stdout")" "iter_0000002  good"
refused "inspect --norms notices as well" 4 "spoilt/iter_0000001 is damaged" "try: trireme checkpoint verify" \
    inspect --norms "$s/spoilt/iter_0000001"

# --- import
for model in gpt2 llama qwen2; do
    tools import-hf $models/$model --save "$s/$model"
    check_equal "import $model" "$status" 0
    tools verify "$s/$model"
    check_contains "the import of $model has sums" "$status: $output" "0: $s/$model/release  good: "
    check_contains "and they agree" "$output" "all sums agree"
    tools export-hf "$s/$model-out" --load "$s/$model"
    check_equal "export $model" "$status" 0
done
tools inspect "$s/qwen2"
check_contains "the type of the import is that of the file" "$output" "holds      parameters bf16"
check_contains "its options describe it" "$output" "add-qkv-bias = true"
refused "import where checkpoints are" 2 "there are checkpoints in $s/gpt2 already" "try: another --save" \
    import-hf $models/llama --save "$s/gpt2"
# A model without a tokenizer is trained on with any that has as many tokens; ids as text stand for one here.
awk 'BEGIN{for (i = 0; i < 60; i++) printf "{\"text\": \"%d %d %d %d\"}\n", i, 59 - i, i / 2, 3}' >"$s/numbers.jsonl"
run_well "training that starts from an import" 1 pretrain --load "$s/gpt2" --device cpu --num-layers 2 --hidden-size 24 \
    --num-attention-heads 4 --seq-length 16 --max-position-embeddings 48 --micro-batch-size 2 --train-iters 2 --lr 1e-3 \
    --tokenizer-type NullTokenizer --vocab-size 60 --data-path "$s/numbers.jsonl" --split 1,0,0

# There and back: the same model says the same.
run_well "a model of one's own" 1 "${tiny[@]}" --save "$s/own" "${steps[@]}" --params-dtype fp32
generate=(generate --prompt "The " --max-new-tokens 12 --temperature 0 --device cpu)
run_trireme 1 "${generate[@]}" --load "$s/own"
said=$output
tools export-hf "$s/own-out" --load "$s/own" --max-shard-size 100KB --vocab-file tests/data/tiny/vocab.json \
    --merge-file tests/data/tiny/merges.txt
check_equal "its pieces" "$status $(find "$s/own-out" -name 'model-*-of-*.safetensors' -size -108k | wc -l)" "0 $(
    find "$s/own-out" -name 'model-*' ! -name '*.json' | wc -l)"
tools import-hf "$s/own-out" --save "$s/own-back"
run_trireme 1 "${generate[@]}" --load "$s/own-back"
check_equal "generate after export and import" "$status: $output" "0: $said"
tools diff "$s/own" "$s/own-back"
check_contains "all its tensors are equal" "$output" "parameters: 68 equal, 0 differ, 0 missing"
# In fp16 as well: an import keeps the type, so the second export has the bytes of the first.
run_well "a model in fp16" 1 "${tiny[@]}" --save "$s/half" "${steps[@]}" --params-dtype fp16
tools inspect --norms "$s/half"
check_equal "norms of a checkpoint in fp16" "$status $(grep -c ' norm [0-9.e+-]* *from ' <<<"$output")" "0 $((4 * 68))"
tools export-hf "$s/half-out" --load "$s/half"
tools import-hf "$s/half-out" --save "$s/half-back"
tools inspect "$s/half-back"
check_contains "an import in fp16 stays in fp16" "$output" "holds      parameters fp16"
tools export-hf "$s/half-again" --load "$s/half-back"
check_equal "export, import and export in fp16" "$status $(cmp "$s/half-out/model.safetensors" "$s/half-again/model.safetensors" && echo same)" "0 same"
run_well "generate in fp16 from an import" 1 "${generate[@]}" --load "$s/half-back" --tokenizer-type GPT2BPETokenizer \
    --vocab-file tests/data/tiny/vocab.json --merge-file tests/data/tiny/merges.txt

# --- one process, MPI or not
run_trireme 2 checkpoint inspect "$s/one"
check_equal "under mpirun it is said once" "$status $(grep -c ^checkpoint "$scratch/stdout")" "0 1"
started 1 env OMPI_MCA_pml=nothing-of-this-name "$programs/trireme" checkpoint inspect "$s/one"
check_equal "where MPI cannot start" "$status" 0

model() { # a copy of a model of transformers, to spoil
    rm -rf "$s/model"
    cp -r "$models/$1" "$s/model"
}
import=(import-hf "$s/model" --save "$s/imported")
model gpt2
rm "$s/model/config.json"
refused "no config.json" 4 "cannot open $s/model/config.json" "try: a directory that save_pretrained" "${import[@]}"
model gpt2
sed -i 's/"gpt2"/"mamba"/' "$s/model/config.json"
refused "unknown architecture" 4 "the architecture mamba cannot be imported" "known: gpt2, llama, qwen2" "${import[@]}"
echo '{"model_type": ' >"$s/model/config.json"
refused "config.json is not JSON" 4 "config.json: not JSON" "try: " "${import[@]}"
model gpt2
rm "$s/model/model.safetensors"
refused "no weights" 4 "there are no weights in $s/model" "try: save_pretrained" "${import[@]}"
model gpt2
truncate -s -10 "$s/model/model.safetensors"
refused "weights cut short" 4 "model.safetensors: damaged or cut short" "try: download" "${import[@]}"
model gpt2
sed -i 's/"n_layer": 2/"n_layer": 3/' "$s/model/config.json"
refused "missing tensors" 4 "the tensors of $s/model do not fit its config.json" "transformer.h.2.ln_1.weight: missing" "${import[@]}"
model gpt2
sed -i 's/"n_layer": 2/"n_layer": 1/' "$s/model/config.json"
refused "extra tensors" 4 "do not fit its config.json" "transformer.h.1.*: not of this architecture" "${import[@]}"
model gpt2
sed -i 's/"vocab_size": 61/"vocab_size": 62/' "$s/model/config.json"
refused "another shape" 4 "do not fit its config.json" "wte.weight: \[61, 24\] in the file, \[62, 24\] by config.json" "${import[@]}"
model qwen2
rm "$s"/model/model-00002-of-*.safetensors
refused "a piece is missing" 4 "cannot open $s/model/model-00002-of-00003.safetensors: No such file" "try: download" "${import[@]}"
model qwen2
echo '{"weight_map": {"a": "../x"}}' >"$s/model/model.safetensors.index.json"
refused "an index that leads elsewhere" 4 "the file of a is no name" "try: download" "${import[@]}"
model llama
refused "a sequence beyond the positions" 2 "sequences of 500 tokens are longer than the 160 positions" "try: --seq-length 160" \
    "${import[@]}" --seq-length 500
check_equal "nothing was imported by what was refused" "$(ls "$s/imported" 2>/dev/null)" ""

# --- export
refused "export to what is there" 2 "$s/one is there already" "try: another directory" export-hf "$s/one" --load "$s/gpt2"
run_well "a shape of its own" 1 "${tiny[@]}" --save "$s/odd" "${steps[@]}" --no-save-optim --swiglu
refused "export of a shape that transformers does not have" 4 "neither the shape of GPT-2 nor that of Llama" "try: " \
    export-hf "$s/out" --load "$s/odd"
: >"$s/file"
refused "export below a file" 74 "cannot create $s/file/out.partial" "try: " export-hf "$s/file/out" --load "$s/gpt2"
check_equal "nothing is left of failed exports" "$(ls -d "$s"/out* 2>/dev/null)" ""
tools export-hf --load "$s/one" "$s/with-tokenizer" --params-dtype fp32 --vocab-file tests/data/tiny/vocab.json \
    --merge-file tests/data/tiny/merges.txt
check_equal "export with a tokenizer" "$status" 0
check_equal "all files are there" "$(cd "$s/with-tokenizer" && echo *)" \
    "config.json merges.txt model.safetensors tokenizer_config.json vocab.json"
