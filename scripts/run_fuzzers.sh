#!/bin/bash
# Runs the libFuzzer programs of `make fuzz`, two at a time, each for FUZZ_SECONDS (30); prints `ok NAME` or
# `not ok NAME`, as run_tests.sh reads it. What they find is kept in build/fuzz/corpus/NAME.
set -u
build=${BUILD:-build} seconds=${FUZZ_SECONDS:-30}
programs=("$build"/fuzz/*_fuzz)
[[ -x ${programs[0]} ]] || {
    echo "ok fuzz # SKIP needs clang: nothing was built in $build/fuzz"
    exit 0
}
fuzz() {
    local name found
    name=$(basename "$1")
    found=$build/fuzz/corpus/$name
    mkdir -p "$found"
    # A good file to start from, small enough to be changed everywhere.
    case $name in
    jsonl_fuzz) head -n 2 tests/data/tiny/corpus.jsonl >"$found/seed" ;;
    merges_fuzz) cp tests/data/tiny/merges.txt "$found/seed" ;;
    idx_fuzz) { printf '\310' && cat tests/data/tiny/corpus_text_document.idx; } >"$found/seed" ;;
    tokenizer_json_fuzz)
        printf '{"added_tokens":[],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","vocab":%s,"merges":["t h","th e"]}}' \
            "$(cat tests/data/tiny/vocab.json)" >"$found/seed"
        ;;
    esac
    if "$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=100000 -artifact_prefix="$found/crash-" \
        -print_final_stats=1 "$found" >"$build/fuzz/$name.log" 2>&1; then
        echo "ok $name ($(sed -n 's/^stat::number_of_executed_units: */executions: /p' "$build/fuzz/$name.log"))"
    else
        echo "not ok $name"
        tail -n 30 "$build/fuzz/$name.log" | sed 's/^/  # /'
        return 1
    fi
}
status=0
for ((first = 0; first < ${#programs[@]}; first += 2)); do
    pids=()
    for program in "${programs[@]:first:2}"; do
        fuzz "$program" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
done
exit $status
