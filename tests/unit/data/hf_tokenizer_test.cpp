// tokenizer.json of the byte-level BPE family against ids made by tiktoken and `tokenizers`
// (tests/oracle/tokenizer_goldens.py), special tokens, NullTokenizer. The files are put together here from
// GPT-2's vocabulary.
#include <gtest/gtest.h>
#include <simdjson.h>

#include "data/normalize.hpp"
#include "data_test_support.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr const char* kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|DIGITS| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";

std::string with_digits(const std::string& digits) {
    std::string pattern = kPattern;
    return pattern.replace(pattern.find("DIGITS"), 6, digits);
}

std::string split_then_byte_level(const std::string& pattern) {
    return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": ")" + pattern +
           R"("}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})";
}

const std::string kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})";

enum class MergeForm { words, pairs };

std::string merges_json(MergeForm form) {
    std::string text = read_file("tests/data/gpt2/merges.txt", ErrorCategory::data), json = "[";
    std::size_t at = text.find('\n') + 1;
    while (at < text.size()) {
        const std::size_t end = text.find('\n', at), space = text.find(' ', at);
        const auto quoted = [&](std::size_t from, std::size_t to) {
            std::string out;
            for (const char c : text.substr(from, to - from))
                out += (c == '"' || c == '\\') ? concat('\\', c) : std::string(1, c);
            return concat('"', out, '"');
        };
        if (json.size() > 1)
            json += ',';
        json += form == MergeForm::words ? quoted(at, end)
                                         : concat("[", quoted(at, space), ",", quoted(space + 1, end), "]");
        at = end + 1;
    }
    return json + "]";
}

struct Parts {
    std::string pre_tokenizer = kByteLevel;
    std::string normalizer = "null";
    std::string model_more = {};
    std::string added =
        R"([{"id": 50256, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}])";
    MergeForm form = MergeForm::words;
};

std::string tokenizer_json(const Parts& parts) {
    return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + parts.added +
           R"(, "normalizer": )" + parts.normalizer + R"(, "pre_tokenizer": )" + parts.pre_tokenizer +
           R"(, "post_processor": null, "decoder": null, "model": {"type": "BPE", "dropout": null, "unk_token": null, )" +
           parts.model_more + R"("vocab": )" + read_file("tests/data/gpt2/vocab.json", ErrorCategory::data) +
           R"(, "merges": )" + merges_json(parts.form) + "}}";
}

std::unique_ptr<Tokenizer> load(const TemporaryDirectory& directory, const Parts& parts,
                                SpecialTokens special = SpecialTokens::are_text) {
    return load_hf_tokenizer(directory.write("tokenizer.json", tokenizer_json(parts)), special);
}

TEST(HfTokenizer, GivesTokenizersIdsWithEveryPattern) {
    const TemporaryDirectory directory;
    const auto gpt2 = load(directory, {});
    const auto llama3 = load(directory, {.pre_tokenizer = split_then_byte_level(with_digits("\\\\p{N}{1,3}")),
                                         .model_more = R"("ignore_merges": true, )",
                                         .form = MergeForm::pairs});
    const auto qwen2 = load(directory, {.pre_tokenizer = split_then_byte_level(with_digits("\\\\p{N}")),
                                        .normalizer = R"({"type": "NFC"})"});
    simdjson::dom::parser parser;
    std::int64_t texts = 0;
    const auto expect = [](const Tokenizer& tokenizer, simdjson::dom::element ids, std::string_view text) {
        Ids expected;
        for (const auto id : simdjson::dom::array(ids))
            expected.push_back(static_cast<std::int32_t>(std::int64_t(id)));
        EXPECT_EQ(tokenizer.encode(text), expected) << "text: " << text;
    };
    for (const auto document : parser.load_many("tests/data/hf_tokenizer_goldens.jsonl")) {
        const std::string_view text = document["text"];
        expect(*llama3, document["llama3"], text);
        expect(*qwen2, document["qwen2"], text);
        ++texts;
    }
    EXPECT_GE(texts, 1000);
    simdjson::dom::parser second;
    for (const auto document : second.load_many("tests/data/tokenizer_goldens.jsonl"))
        expect(*gpt2, document["ids"], document["text"]);
    EXPECT_EQ(gpt2->vocab_size(), 50257);
    EXPECT_EQ(gpt2->end_of_document(), 50256);
}

TEST(HfTokenizer, SpecialTokensAreTextUnlessAllowed) {
    const TemporaryDirectory directory;
    const Parts parts = {
        .added = R"([{"id": 50256, "content": "<|endoftext|>"}, {"id": 50300, "content": "<|end"}])"};
    const std::string text = "a<|endoftext|><|end b<|";
    const auto as_text = load(directory, parts), allowed = load(directory, parts, SpecialTokens::have_ids);
    EXPECT_EQ(as_text->vocab_size(), 50301);
    EXPECT_EQ(as_text->decode(as_text->encode(text)), text);
    for (const std::int32_t id : as_text->encode(text))
        EXPECT_LT(id, 50256);
    const Ids ids = allowed->encode(text); // "a", "<|endoftext|>" (the longest), "<|end", " b", "<", "|"
    EXPECT_EQ(ids, (Ids{64, 50256, 50300, 275, 27, 91}));
    EXPECT_EQ(allowed->decode(ids), text);
    EXPECT_NE(as_text->fingerprint(), allowed->fingerprint());
    EXPECT_EQ(
        load_gpt2_bpe("tests/data/gpt2/vocab.json", "tests/data/gpt2/merges.txt", SpecialTokens::have_ids)
            ->encode("a<|endoftext|>"),
        (Ids{64, 50256}));
}

TEST(HfTokenizer, RefusesByNameWhatItCannotDo) {
    const TemporaryDirectory directory;
    const auto refusal = [&](const Parts& parts) { return message_of([&] { load(directory, parts); }); };
    const auto expect = [&](const Parts& parts, const std::string& part) {
        EXPECT_NE(refusal(parts).find(part), std::string::npos) << refusal(parts);
    };
    expect({.pre_tokenizer = R"({"type": "Metaspace"})"}, "pre-tokenizer Metaspace is not supported");
    expect({.pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": true})"}, "add_prefix_space");
    expect({.pre_tokenizer = "null"}, "pre-tokenizer  is not supported");
    expect({.pre_tokenizer = split_then_byte_level("\\\\w+")}, "pattern \\w+ is not supported");
    expect({.normalizer = R"({"type": "Lowercase"})"}, "normalizer Lowercase is not supported");
    expect({.model_more = R"("byte_fallback": true, )"}, "byte_fallback");
    expect({.model_more = R"("continuing_subword_prefix": "##", )"}, "continuing_subword_prefix");
    expect({.added = R"([{"id": 50256, "content": "<|endoftext|>", "lstrip": true}])"},
           "lstrip is not supported");
    expect({.added = R"([{"id": 7, "content": "<|endoftext|>"}])"}, "has two ids");
    expect({.added = R"([{"id": 7, "content": "<x>"}])"}, "id 7 belongs to two tokens");
    for (const char* wrong :
         {"", "[]", "{}", R"({"model": {"type": "Unigram"}})", R"({"model": {"vocab": 3}})"})
        EXPECT_EQ(exit_code_of([&] { load_hf_tokenizer(directory.write("x.json", wrong)); }), 3) << wrong;
}

// Examples of the Unicode Standard, Annex 15, and of its NormalizationTest.txt.
TEST(Normalization, ComposesAsTheStandardSays) {
    const auto nfc = [](const std::string& text) {
        std::string normal;
        normalize_nfc(text, normal);
        return normal;
    };
    EXPECT_EQ(nfc("e\u0301"), "\u00e9");
    EXPECT_EQ(nfc("\u212b"), "\u00c5");
    EXPECT_EQ(nfc("\u1e0b\u0323"), "\u1e0d\u0307");
    EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");
    EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
    EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
    EXPECT_EQ(nfc("\u0958"), "\u0915\u093c"); // excluded from composition
    EXPECT_EQ(nfc("a\u0315\u0300\u05ae\u0062"), "\u00e0\u05ae\u0315b");
    EXPECT_EQ(nfc("\xff\xcc e\u0301\xed\xa0\x80"), "\xff\xcc \u00e9\xed\xa0\x80") << "bytes stay";
    EXPECT_TRUE(is_surely_nfc("na\u00efve \u02ff"));
    EXPECT_FALSE(is_surely_nfc("e\u0301"));
}

// The stretches that a long text is cut into do not show.
TEST(Normalization, IsTheSameForLongTexts) {
    std::string part = "e\u0301 \uAC00\u1100\u1161\u11A8 \u4E00 q\u0323\u0307 a\u0308\u0304\xff \u0915\u093C";
    std::string expected_part, text, expected, found;
    normalize_nfc(part, expected_part);
    ASSERT_NE(expected_part, part);
    while (text.size() < 200'000) {
        text += part;
        expected += expected_part;
    }
    normalize_nfc(text, found);
    EXPECT_TRUE(found == expected);
    // A mark beyond the first stretch still joins the character before it, however far the next one is.
    normalize_nfc(std::string(5000, 'x') + "e\u0301", found);
    EXPECT_EQ(found, std::string(5000, 'x') + "\u00e9");
    std::string jamo, syllables; // vowels and trails never begin a stretch
    for (int count = 0; count < 6000; ++count) {
        jamo += "\u1100\u1161\u11A8";
        syllables += "\uAC01";
    }
    normalize_nfc(jamo, found);
    EXPECT_TRUE(found == syllables);
}

TEST(NullTokenizer, TakesNumbersOnly) {
    const auto tokenizer = make_null_tokenizer(100);
    EXPECT_EQ(tokenizer->vocab_size(), 101);
    EXPECT_EQ(tokenizer->end_of_document(), 100);
    EXPECT_EQ(tokenizer->encode(" 1 2\n99\t0 "), (Ids{1, 2, 99, 0}));
    EXPECT_EQ(tokenizer->encode(""), Ids{});
    EXPECT_EQ(tokenizer->decode(Ids{5, 100}), "5 100");
    for (const char* wrong : {"100", "-1", "1.5", "x", "99999999999"})
        EXPECT_EQ(exit_code_of([&] { tokenizer->encode(wrong); }), 3) << wrong;
    EXPECT_THROW(tokenizer->decode(Ids{101}), Error);
}

} // namespace
} // namespace trireme::data
