#!/usr/bin/env python3
"""Writes tests/data/tokenizer_goldens.jsonl: hard texts and their GPT-2 ids by tiktoken, and
tests/data/hf_tokenizer_goldens.jsonl: ids with the patterns of Llama 3 and Qwen 2.5 (the latter after Unicode's NFC).

    pip install tiktoken tokenizers && tests/oracle/tokenizer_goldens.py

tiktoken's encoding is built from tests/data/gpt2, so nothing is downloaded. Texts over the code points assigned in
Unicode 14 (what this Python's unicodedata knows) must give the same ids with `tokenizers`, or it stops here. The texts
hold no others, because `tokenizers` has tables of its own. Its NFC is older than Unicode 14: where it does not know
a mark, it is left out of the comparison and the text is printed.
"""
import json
import pathlib
import random
import unicodedata

import tiktoken
import tokenizers
from tiktoken_ext.openai_public import r50k_pat_str

TESTS = pathlib.Path(__file__).resolve().parent.parent
ASSIGNED = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
ASSIGNED_SET = set(ASSIGNED)
VOCAB, MERGES = TESTS / "data/gpt2/vocab.json", TESTS / "data/gpt2/merges.txt"


def byte_of_character():
    own = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    rest = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(0x100 + i): b for i, b in enumerate(rest)}


def tiktoken_with(pattern):
    table = byte_of_character()
    vocab = json.loads(VOCAB.read_text(encoding="utf-8"))
    end = vocab.pop("<|endoftext|>")
    ranks = {bytes(table[c] for c in token): rank for token, rank in vocab.items()}
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end})


def tiktoken_gpt2():
    return tiktoken_with(r50k_pat_str)


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


WHITE_SPACE = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
SUFFIXES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]
EMOJI = ["😀", "❤️", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇫🇷", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🧑🏿‍🚀", "☕", "🫠"]


def long_texts():
    """The general part: texts of many lengths, a few of them long."""
    rng = random.Random(20240607)
    for alphabet in ALPHABETS:
        for length in (3, 7, 16, 45, 130, 400):
            for _ in range(2):
                yield "".join(rng.choice(alphabet) for _ in range(length))
    for length in (5, 20, 60):
        for _ in range(40):
            yield "".join(rng.choice("  'a1\n") if rng.random() < 0.3 else chr(rng.choice(ASSIGNED)) for _ in range(length))
    for start in range(0, 0x3100, 0x100):  # assigned characters of the first blocks, alone and after a space
        yield "".join(chr(c) + " " + chr(c) + chr(c) + "\n" for c in range(start, start + 0x100, 5) if c in ASSIGNED_SET)


def page_texts(rng):
    """Every page of 256 code points that has assigned ones: words of its letters, with marks, digits and spaces of its own."""
    pages = {}
    for code in ASSIGNED:
        pages.setdefault(code >> 8, []).append(chr(code))
    for members in pages.values():
        word = "".join(rng.choice(members) for _ in range(4))
        yield word + " " + rng.choice(members) + rng.choice("a1'.\n") + rng.choice(members)
        yield rng.choice(["x", " ", "7", "é", "!", "\u0301"]) + word[:2] + "'s" + word[2:]


def space_texts(rng):
    """Runs of each White_Space character, alone and mixed, before and after letters, digits, punctuation and the end."""
    for code in WHITE_SPACE:
        c = chr(code)
        for run in (c, c * 2, c * 3 + " ", " " + c):
            for after in ("a", "1", "!", ""):
                yield rng.choice("a1!") + run + after
        yield c + "'s" + c + c + "'ll"
    for _ in range(200):
        yield "".join(
            "".join(chr(rng.choice(WHITE_SPACE)) for _ in range(rng.randint(1, 4))) + rng.choice(["a", "12", "!?", "é", "'s", "漢", ""])
            for _ in range(rng.randint(1, 4))
        )


def contraction_texts(rng):
    for suffix in SUFFIXES:
        for form in (suffix, suffix.upper(), suffix[:2].upper() + suffix[2:], suffix.replace("'", "’")):
            for before in ("", " ", "I", "X ", "7", "!", "é", "'", "\n"):
                yield before + form + rng.choice(["", "x", " y", "'", "1", form])


def digit_texts(rng):
    """All scripts with decimal digits, and numbers that are no digits (Nl, No)."""
    digits, others = {}, [c for c in ASSIGNED if unicodedata.category(chr(c)) in ("Nl", "No")]
    for code in ASSIGNED:
        if unicodedata.category(chr(code)) == "Nd":
            digits.setdefault(code - unicodedata.digit(chr(code)), []).append(chr(code))
    for script in digits.values():
        number = "".join(rng.choice(script) for _ in range(rng.randint(1, 7)))
        yield number
        yield rng.choice(["x", " ", "-", "1", "\u0301"]) + number + rng.choice(["x", " ", ".5", chr(rng.choice(others))]) + number[:2]
    for _ in range(60):
        yield "".join(rng.choice(["1", " ", "a", ".", ""]) + chr(rng.choice(others)) for _ in range(3))


def joined_texts(rng):
    """Emoji sequences, and letters under combining marks."""
    marks = [c for c in ASSIGNED if unicodedata.category(chr(c)).startswith("M")]
    for _ in range(150):
        yield "".join(rng.choice(EMOJI + [" ", "a", "1", "\u200d", "\ufe0f"]) for _ in range(rng.randint(1, 6)))
    for _ in range(250):
        yield "".join(
            rng.choice(["a", "e", " ", "क", "א", "ᄀ", "1", ""]) + "".join(chr(rng.choice(marks)) for _ in range(rng.randint(1, 3)))
            for _ in range(rng.randint(1, 4))
        )


def word_texts(rng):
    """Words of period 1 to 5, long enough for both ways of merging, and words that the vocabulary has in parts."""
    for period in range(1, 6):
        for length in (9, 30, 63, 64, 65, 130):
            for _ in range(3):
                part = "".join(rng.choice("etaoinshr") for _ in range(period))
                yield (part * length)[:length]
    for _ in range(150):
        yield "".join(rng.choice(["ing", "tion", "the", "er", "Un", "un", "able", "s", "ly", " ", " a"]) for _ in range(rng.randint(2, 6)))


def mixed_texts(rng):
    kinds = ["a", "Z", "é", "漢", "1", "٣", " ", "  ", "\n", "\r\n", "\t", "'", "'s", "!", "...", "$", "_", "\u00a0", "\u0301", "😀", "\u200d", "\x00"]
    for _ in range(1100):
        yield "".join(chr(rng.choice(ASSIGNED)) if rng.random() < 0.15 else rng.choice(kinds) for _ in range(rng.randint(2, 12)))


def hard_texts(most=None):
    """Short texts by kind of difficulty; with `most`, as many of each kind at most."""
    kinds = [page_texts, space_texts, contraction_texts, digit_texts, joined_texts, word_texts, mixed_texts]
    for number, kind in enumerate(kinds):
        every = list(kind(random.Random(number)))
        yield from every if most is None else random.Random(number).sample(every, min(most, len(every)))


def texts():
    yield from WRITTEN
    yield from long_texts()
    yield from hard_texts()


def write(path, records):
    with open(TESTS / "data" / path, "w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")


def gpt2_records():
    first, second = tiktoken_gpt2(), tokenizers_gpt2()
    for number, text in enumerate(dict.fromkeys(texts())):
        ids = first.encode_ordinary(text)
        if ids != second.encode(text).ids:
            raise SystemExit(f"text {number}: tiktoken and tokenizers differ: {text!r}")
        yield {"text": text, "ids": ids}


def hf_records():
    llama3, qwen2 = tiktoken_with(LLAMA3), tiktoken_with(QWEN2)
    llama3_again, qwen2_again = tokenizers_with(LLAMA3, ignore_merges=True), tokenizers_with(QWEN2, nfc=True)
    for text in dict.fromkeys(MORE + [t for t in WRITTEN if len(t) <= 130] + list(hard_texts(150))):
        nfc = unicodedata.normalize("NFC", text)
        record = {"text": text, "llama3": llama3.encode_ordinary(text), "qwen2": qwen2.encode_ordinary(nfc)}
        knows = tokenizers.normalizers.NFC().normalize_str(text) == nfc
        if not knows:
            print(f"the NFC of tokenizers differs from Unicode's, which is followed: {ascii(text)}")
        if record["llama3"] != llama3_again.encode(text).ids or knows and record["qwen2"] != qwen2_again.encode(text).ids:
            raise SystemExit(f"tiktoken and tokenizers differ: {text!r}")
        yield record


def main():
    if unicodedata.unidata_version != "14.0.0":
        raise SystemExit(f"this Python has Unicode {unicodedata.unidata_version}; the texts are made with 14.0.0 (Python 3.11)")
    write("tokenizer_goldens.jsonl", gpt2_records())
    write("hf_tokenizer_goldens.jsonl", hf_records())


if __name__ == "__main__":
    main()
