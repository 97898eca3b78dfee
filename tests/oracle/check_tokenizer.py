#!/usr/bin/env python3
"""Compares trireme-data's ids with tiktoken's and `tokenizers`', document by document, over a folder of text.

    make check-tokenizer TEXT=DIR [PYTHON=...]        needs: pip install tiktoken tokenizers

Each line of a *.jsonl file (its key "text") and each other file that is UTF-8 is a document. `tokenizers` is compared on
documents over the code points that Python's unicodedata knows; beyond, its tables may be older than tiktoken's. The exit
status is 1 when any document differs; the first ten are shown.
"""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tokenizer_goldens as goldens

BATCH_BYTES = 16 << 20


def documents(folder):
    for path in sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file()):
        raw = path.read_bytes()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if path.suffix == ".jsonl":
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    yield f"{path}:{number}", json.loads(line)["text"]
        else:
            yield str(path), text


def ours(program, texts, scratch):
    source, prefix = scratch / "in.jsonl", scratch / "out"
    with open(source, "w", encoding="utf-8") as out:
        for text in texts:
            out.write(json.dumps({"text": text}) + "\n")
    files = ["--vocab-file", str(goldens.VOCAB), "--merge-file", str(goldens.MERGES)]
    command = [program, "preprocess", "--input", str(source), "--output-prefix", str(prefix), *files]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    index = pathlib.Path(f"{prefix}_text_document.idx").read_bytes()
    count = struct.unpack_from("<Q", index, 18)[0]
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    ids = array.array("H", pathlib.Path(f"{prefix}_text_document.bin").read_bytes())
    at = 0
    for length in lengths:
        yield ids[at : at + length].tolist()
        at += length


def main(folder, program):
    tiktoken, tokenizers = goldens.tiktoken_gpt2(), goldens.tokenizers_gpt2()
    counted = {"documents": 0, "bytes": 0, "by tokenizers too": 0}
    different = []

    def compare(batch, scratch):
        for (name, text), ids in zip(batch, ours(program, [text for _, text in batch], scratch), strict=True):
            counted["documents"] += 1
            counted["bytes"] += len(text.encode())
            if ids != tiktoken.encode_ordinary(text):
                different.append(f"{name}: tiktoken")
            if all(unicodedata.category(c) != "Cn" for c in set(text)):
                counted["by tokenizers too"] += 1
                if ids != tokenizers.encode(text).ids:
                    different.append(f"{name}: tokenizers")

    with tempfile.TemporaryDirectory() as scratch:
        batch, size = [], 0
        for document in documents(folder):
            batch.append(document)
            size += len(document[1])
            if size > BATCH_BYTES:
                compare(batch, pathlib.Path(scratch))
                batch, size = [], 0
        if batch:
            compare(batch, pathlib.Path(scratch))
    print(", ".join(f"{value} {name}" for name, value in counted.items()), f", {len(different)} differences", sep="")
    for name in different[:10]:
        print("  differs:", name)
    return 1 if different or not counted["documents"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ.get("TRIREME_DATA", "build/bin/trireme-data")))
