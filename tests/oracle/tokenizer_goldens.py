#!/usr/bin/env python3
"""Writes tests/data/tokenizer_goldens.jsonl: hard texts and their GPT-2 ids by tiktoken, and
tests/data/hf_tokenizer_goldens.jsonl: the ids that `tokenizers` gives with the patterns of Llama 3 and Qwen 2.5.

    pip install tiktoken tokenizers && tests/oracle/tokenizer_goldens.py

tiktoken's encoding is built from tests/data/gpt2, so nothing is downloaded. Texts over the code points assigned in
Unicode 14 (what this Python's unicodedata 14 knows, or less) must give the same ids with `tokenizers`.
"""
import json
import pathlib
import random
import unicodedata

import tiktoken
import tokenizers
from tiktoken_ext.openai_public import r50k_pat_str

TESTS = pathlib.Path(__file__).resolve().parent.parent
VOCAB, MERGES = TESTS / "data/gpt2/vocab.json", TESTS / "data/gpt2/merges.txt"


def byte_of_character():
    own = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    rest = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(0x100 + i): b for i, b in enumerate(rest)}


def tiktoken_gpt2():
    table = byte_of_character()
    vocab = json.loads(VOCAB.read_text(encoding="utf-8"))
    end = vocab.pop("<|endoftext|>")
    ranks = {bytes(table[c] for c in token): rank for token, rank in vocab.items()}
    return tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end})


def tokenizers_gpt2():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(VOCAB), str(MERGES)))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def tokenizers_with(pattern, ignore_merges=False, nfc=False):
    """GPT-2's vocabulary with another pre-tokenizer, as the tokenizer.json of those models has it."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(VOCAB), str(MERGES), ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    if nfc:
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    return tokenizer


MORE = [
    "I'LL they'Ve 'S'T'Re 'ſ it'ſ 'K", "1234567 12 1 ١٢٣٤ ½²Ⅷ", "\tgo !go\n\n x  \n  y", "a\r\n\r\nb \r c", "!!\n\n??\r\n -\n", " \u00a0x \u3000漢",
    "e\u0301 n\u0303 A\u030a \u212b \u1100\u1161\u11a8 \uac00\u11a8 \u0344 q\u0323\u0307 q\u0307\u0323 \u0958 \ufb1d \u2126",
    "\u0915\u093c \u0b47\u0b3e \u1112\u1161\u11ab\u1100\u1173\u11af \U0001d15e \U0002f800 a\u0315\u0300\u05ae\u0062", "😀abc …def  ghi",
]

WRITTEN = [
    "", " ", "  ", "\n", "\n\n", " \n ", "\t\tx", "a", " a", "  a", "   a", "a ", "a  ", "Hello, world!", "don't", "DON'T",
    "I'll we've they're I'm he'd it's can't", "'s", "''s", " 's", "'ll'", "'lla", "'r", "'re", "x'y'z", "’s don’t", "!'s", "'",
    "1234567890", "3.14159e-10", "a1b2c3", "١٢٣ ४५६ Ⅷ ½ ² ㊿", "price: $1,234.56 (-12%)", "x_y-z/w\\v", "<|endoftext|>",
    "a<|endoftext|>b", "https://example.org/a?b=c&d=e#f", "#!/bin/sh\nset -e\n\tif [ -f x ]; then\n\t\techo y\n\tfi\n",
    "def f(x):\n    return x  # two spaces\n\n\n", "line\r\nline\r\n", "\r", "\x00\x01\x7f", "tab\tand  spaces   and    more     ",
    "naïve café façade Ångström", "naïve café", "Größe Straße ÜBER", "Привет, мир! Ёжик", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم",
    "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好,世界。今天天气很好", "こんにちは世界 カタカナ", "안녕하세요 세계", "Xin chào thế giới", "Zażółć gęślą jaźń",
    "😀", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "👍🏽 ok", "❤️❤", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚", "𓀀𓀁 𒀀", "\u00a0x\u00a0\u00a0y", "\u2003em\u2003", "\u3000全角\u3000 空白",
    "\u200bzero\u200dwidth\ufeff", "\u0085next\u2028line\u2029para", "\u1680ogham", "\u180emongolian", "a\u0301\u0301\u0301b", "\ud7ff\ue000\ufffd\uffff",
    "\U0010ffff\U000e0001", "…—–“”‘’«»", "±×÷≠≤≥∞∑∏∫√", "x" * 41, "ab" * 40, "abc" * 30, "a" * 1000, "ab" * 700, " " * 100, "\n" * 77 + "x",
    "=" * 80, "-" * 79 + "\n", "0" * 300, "pneumonoultramicroscopicsilicovolcanoconiosis" * 4, "supercalifragilisticexpialidocious " * 3, "é" * 50, "漢" * 60,
    " the The THE tHe", "camelCaseWords and SNAKE_CASE_WORDS", "e.g., i.e. U.S.A. Ph.D.", "a\n b\n  c\n   d", " \t \t x", "\n \n \n", "x \n", "x\n ", "..  ..", "?!?!  !",
]
ALPHABETS = [
    "ab ", "a1 .'", " \n\t", "'sdmtrevl ", "aàáâ ", "абв гд", "你好 世界", "a\u0301 b", "😀👍🏽\u200d ", "01 ٣४ ½", " \u00a0\u2003\u3000x", "\x00\x1f\x7f\x80\xa0\xad",
    "etaoinshrdlucmfw ", "ETAOIN etaoin.", "()[]{}<>+-*/=;:,.", "abcdefghijklmnopqrstuvwxyz",
]


def texts():
    yield from WRITTEN
    rng = random.Random(20240607)
    for alphabet in ALPHABETS:
        for length in (3, 7, 16, 45, 130, 400):
            for _ in range(3):
                yield "".join(rng.choice(alphabet) for _ in range(length))
    assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    for length in (5, 20, 60):
        for _ in range(60):
            yield "".join(rng.choice("  'a1\n") if rng.random() < 0.3 else chr(rng.choice(assigned)) for _ in range(length))
    for start in range(0, 0x3100, 0x100):  # every assigned character of the first blocks, alone and after a space
        yield "".join(chr(c) + " " + chr(c) + chr(c) + "\n" for c in range(start, start + 0x100, 3) if unicodedata.category(chr(c)) != "Cn")


def write(path, records):
    with open(TESTS / "data" / path, "w", encoding="ascii", newline="\n") as out:
        for record in records:
            out.write(json.dumps(record, separators=(",", ":")) + "\n")


def gpt2_records():
    first, second = tiktoken_gpt2(), tokenizers_gpt2()
    for number, text in enumerate(texts()):
        ids = first.encode_ordinary(text)
        if ids != second.encode(text).ids:
            raise SystemExit(f"text {number}: tiktoken and tokenizers differ: {text!r}")
        yield {"text": text, "ids": ids}


def hf_records():
    llama3, qwen2 = tokenizers_with(LLAMA3, ignore_merges=True), tokenizers_with(QWEN2, nfc=True)
    for text in MORE + [t for t in texts() if len(t) <= 130]:
        yield {"text": text, "llama3": llama3.encode(text).ids, "qwen2": qwen2.encode(text).ids}


def main():
    write("tokenizer_goldens.jsonl", gpt2_records())
    write("hf_tokenizer_goldens.jsonl", hf_records())


if __name__ == "__main__":
    main()
