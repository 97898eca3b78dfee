#!/bin/bash
# trireme-data preprocess against tiktoken and `tokenizers` on 200 MB of JSONL made of this machine's text: one thread,
# the same core, one after the other, in seconds of that core (so that other work on it does not count). PYTHON names an interpreter that has the two; BENCH_BYTES another size.
set -eu
build=${BUILD:-build} python=${PYTHON:-python3} bytes=${BENCH_BYTES:-200000000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$build/bin/trireme-data" collect /usr/share --output "$scratch/text.jsonl" --max-bytes "$bytes" >/dev/null
core=$(taskset -pc $$ | sed 's/.*[^0-9]//')
taskset -c "$core" "$python" - "$build/bin/trireme-data" "$scratch" "$bytes" <<'END'
import json, os, pathlib, resource, subprocess, sys, time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
program, scratch, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, "tests/oracle")

texts = [json.loads(line)["text"] for line in open(scratch / "text.jsonl", encoding="utf-8")]
# What the machine has is repeated with changed numbers, so that the repeats are not the same words.
documents, size, round_number = [], 0, 0
while size < wanted:
    for text in texts:
        text = text if round_number == 0 else text.replace("1", str(round_number)).replace("2", f"{round_number}7")
        documents.append(text)
        size += len(text.encode())
        if size >= wanted:
            break
    round_number += 1
with open(scratch / "in.jsonl", "w", encoding="utf-8") as out:
    for text in documents:
        out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
subprocess.run([program, "preprocess", "--input", scratch / "in.jsonl", "--output-prefix", scratch / "out",
                "--vocab-file", "tests/data/gpt2/vocab.json", "--merge-file", "tests/data/gpt2/merges.txt"],
               check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
ours = used.ru_utime + used.ru_stime
print(f"tokenizer: trireme-data preprocess {size / ours / 1e6:.1f} MB/s of text a core ({size / 1e6:.0f} MB, files read and written)", flush=True)
try:
    import tokenizer_goldens as goldens
except ImportError as missing:
    print(f"tokenizer: not compared: {missing} (PYTHON names an interpreter with tiktoken and tokenizers)")
    sys.exit()
for name, encode, goal in [("tiktoken", goldens.tiktoken_gpt2().encode_ordinary, 5), ("tokenizers", goldens.tokenizers_gpt2().encode, 15)]:
    start = time.process_time()
    for text in documents:
        encode(text)
    theirs = time.process_time() - start
    print(f"tokenizer: {name} {size / theirs / 1e6:.1f} MB/s in memory: ours is {theirs / ours:.1f} times as fast (goal {goal})", flush=True)
END
