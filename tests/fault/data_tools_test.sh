#!/bin/bash
# trireme-data under bad conditions: killed, on a full disk, with bad lines, with little memory. What was there before
# stays whole, and every failure has its exit code and one message.
. tests/support/shell_test.sh
root=$PWD
data=$root/$TRIREME_BIN/trireme-data
[[ -x $data ]] || data=$TRIREME_BIN/trireme-data
tokenizer=(--vocab-file "$root/tests/data/tiny/vocab.json" --merge-file "$root/tests/data/tiny/merges.txt")
cd "$scratch" || exit 1
preprocess() { "$data" preprocess "${tokenizer[@]}" "$@"; }

corpus=$root/tests/data/tiny/corpus.jsonl
preprocess --input "$corpus" --output-prefix old >/dev/null
sums=$(sha256sum old_text_document.{bin,idx})

# Killed in the middle: an endless input, until the unfinished file has grown.
yes '{"text": "a line of text that goes on and on and on and never says anything new"}' |
    "$data" preprocess "${tokenizer[@]}" --input - --output-prefix old >/dev/null 2>&1 &
for _ in $(seq 200); do
    sleep 0.1
    [[ -n $(find . -name 'old_text_document.bin.tmp.*' -size +1M) ]] && break
done
grown=$(find . -name 'old_text_document.bin.tmp.*' -size +1M | wc -l)
kill -KILL $! && wait $! 2>/dev/null
check_equal "an unfinished file was there when it was killed" "$grown" 1
check_equal "killed: older outputs are whole" "$(sha256sum old_text_document.{bin,idx})" "$sums"
preprocess --input "$corpus" --output-prefix old >out 2>&1
check_contains "the next run removes what the killed one left" "$(cat out)" "removed 2 unfinished files of killed runs"
check_equal "nothing unfinished is left" "$(find . -name '*.tmp.*')" ""
check_equal "and the pair is the same again" "$(sha256sum old_text_document.{bin,idx})" "$sums"

# A bad line in the middle.
{ cat "$corpus"; echo '{"text": 3}'; cat "$corpus"; } >bad.jsonl
lines=$(wc -l <"$corpus")
preprocess --input bad.jsonl --output-prefix old >out 2>&1
check_equal "a bad line is exit 3" "$?" 3
check_contains "and named" "$(cat out)" "bad.jsonl:$((lines + 1)): the value of \"text\" is not a string"
check_equal "bad line: older outputs are whole" "$(sha256sum old_text_document.{bin,idx})" "$sums"
check_equal "nothing unfinished is left" "$(find . -name '*.tmp.*')" ""
for number in $(seq 12); do echo "{\"text\": $number}"; done >>bad.jsonl
preprocess --input bad.jsonl --output-prefix skipped --on-bad-line skip >out 2>&1
check_equal "skipped bad lines are no failure" "$?" 0
check_contains "but counted" "$(cat out)" "bad lines left out: 13"
check_equal "ten are listed" "$(grep -c 'bad.jsonl:' out)" 10

# Damaged gzip is an error even with skip.
gzip -c "$corpus" | head -c 2000 >cut.jsonl.gz
preprocess --input cut.jsonl.gz --output-prefix gz --on-bad-line skip >out 2>&1
check_equal "cut-off gzip is exit 3" "$?" 3
check_contains "and named" "$(cat out)" "cut.jsonl.gz is damaged: gzip: it ends in the middle"

# The same bytes whatever the workers and the compression.
gzip -c "$corpus" >whole.jsonl.gz
for workers in 1 3; do preprocess --input whole.jsonl.gz "$corpus" --output-prefix "w$workers" --workers $workers >/dev/null; done
check_equal "workers do not matter" "$(cat w1_* | sha256sum)" "$(cat w3_* | sha256sum)"

# Shuffled: the same documents, another order, nothing left behind; alike for the seed.
preprocess --input "$corpus" --output-prefix shuffled --shuffle-documents 5 >/dev/null
preprocess --input "$corpus" --output-prefix again --shuffle-documents 5 --workers 2 >/dev/null
check_equal "the seed gives the order" "$(cat shuffled_* | sha256sum)" "$(cat again_* | sha256sum)"
check_equal "it is another order" "$(cmp -s shuffled_text_document.bin old_text_document.bin; echo $?)" 1
documents() {
    for number in $(seq 0 $((lines - 1))); do "$data" inspect "$1" --document "$number" | tail -n 1 | cut -d: -f2; done | sort
}
check_equal "the documents are the same" "$(documents shuffled_text_document)" "$(documents old_text_document)"
check_equal "no ordered copy is left" "$(find . -name '*.ordered*')" ""

# verify and merge.
out=$("$data" merge --input old_text_document shuffled_text_document --output-prefix merged 2>&1)
check_equal "merge" "$? $(head -n 1 <<<"$out" | cut -d, -f1)" "0 documents $((2 * lines))"
"$data" verify merged "${tokenizer[@]}" >out 2>&1
check_equal "verify takes it" "$?" 0
check_contains "and says so" "$(cat out)" "good: documents $((2 * lines))"
"$data" verify merged --tokenizer-type NullTokenizer --vocab-size 5 >out 2>&1
check_equal "verify with a smaller vocabulary" "$?" 3
check_contains "names the id" "$(cat out)" "is outside [0, 6)"
truncate -s -1 merged.bin
"$data" verify merged >out 2>&1
check_equal "a file cut short is exit 3" "$?" 3
check_contains "and named" "$(cat out)" "merged.bin: cut short"

# A sample of a blend is the next one of the member whose turn it is; of equal members each has every other turn.
sample() { "$data" inspect "$1" "${@:3}" --seq-length 16 --split 9,1 --sample "$2" | grep '^sample'; }
two=(--data-path 1 old_text_document 1 shuffled_text_document)
for number in 0 1 2 3; do "$data" inspect "${two[@]}" --seq-length 16 --split 9,1 --sample $number | grep '^sample'; done >blend
check_equal "every other sample is of the first member" "$(grep -c 'of train, from old_text_document' blend)" 2
check_equal "every other sample is of the second" "$(grep -c 'of train, from shuffled_text_document' blend)" 2
check_equal "which gives its own samples in order" "$(grep 'from old_' blend | cut -d: -f2)" \
    "$(for number in 0 1; do sample old_text_document $number | cut -d: -f2; done)"
check_equal "files for each part are whole" "$(sample --train-data-path 3 old_text_document | cut -d: -f2)" \
    "$("$data" inspect old_text_document --split 1 --seq-length 16 --sample 3 | grep '^sample' | cut -d: -f2)"
"$data" inspect old_text_document --split 1 --seq-length 16 --sample 3 --part valid >out 2>&1
check_equal "a part without a share is exit 2" "$? $(grep -c '^trireme: error: --part valid is empty' out)" "2 1"

# Special tokens.
echo '{"text": "a<|endoftext|>b"}' >special.jsonl
preprocess --input special.jsonl --output-prefix text >/dev/null
preprocess --input special.jsonl --output-prefix ids --allow-special >/dev/null
end=$(grep -o '"<|endoftext|>": [0-9]*' "$root/tests/data/tiny/vocab.json" | grep -o '[0-9]*$')
check_contains "special tokens have ids when allowed" "$("$data" inspect ids_text_document --document 0)" " $end "
check_lacks "and are text otherwise" "$("$data" inspect text_text_document --document 0)" " $end "

# Memory: 300 MB of input in 350 MB of address space beside the program's own.
if [[ ${TRIREME_TEST_LEVEL:-quick} == full ]]; then size=300; else size=60; fi
yes "$(head -n 5 "$corpus")" | head -c ${size}000000 | grep -a '}$' >large.jsonl
(
    ulimit -v 800000
    preprocess --input large.jsonl --output-prefix large --workers 2 >out 2>&1
    echo "$?" >status
)
check_equal "memory is bounded" "$(cat status) $(head -n 1 out | cut -d' ' -f1)" "0 documents"
rm -f large*

# A full disk.
mkdir disk
if [[ $(id -u) == 0 ]] && mount -t tmpfs -o size=256k tmpfs disk 2>/dev/null; then
    preprocess --input "$corpus" --output-prefix disk/old >/dev/null
    sums=$(sha256sum disk/old_text_document.{bin,idx})
    for _ in $(seq 40); do cat "$corpus"; done >many.jsonl
    preprocess --input many.jsonl --output-prefix disk/old >out 2>&1
    check_equal "a full disk is exit 74" "$?" 74
    check_contains "and named" "$(cat out)" "disk/old_text_document"
    check_equal "full disk: older outputs are whole" "$(sha256sum disk/old_text_document.{bin,idx})" "$sums"
    check_equal "full disk: nothing unfinished is left" "$(find disk -name '*.tmp.*')" ""
    umount disk
else
    echo "ok a full disk is exit 74 # SKIP needs root: to mount a small tmpfs"
fi
