// The GPT-2 tokenizer against ids made by tiktoken (tests/oracle/tokenizer_goldens.py), and all ways
// of merging against the definition. Tests run in the repository's root.
#include "trireme/data/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <simdjson.h>

#include "data/bpe.hpp"
#include "data/bpe_vocabulary.hpp"
#include "data/pre_tokenizer.hpp"
#include "data_test_support.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::data {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& gpt2() {
    static const std::unique_ptr<Tokenizer> tokenizer =
        load_gpt2_bpe("tests/data/gpt2/vocab.json", "tests/data/gpt2/merges.txt");
    return *tokenizer;
}

TEST(Gpt2Tokenizer, GivesTiktokensIdsOnEveryGolden) {
    simdjson::dom::parser parser;
    const auto scratch = gpt2().make_scratch();
    std::int64_t texts = 0;
    for (int pass = 0; pass < 2; ++pass) { // the second pass meets its pieces in the cache
        for (const auto document : parser.load_many("tests/data/tokenizer_goldens.jsonl")) {
            const std::string_view text = document["text"];
            Ids expected, found;
            for (const auto id : document["ids"])
                expected.push_back(static_cast<std::int32_t>(std::int64_t(id)));
            gpt2().encode(text, *scratch, found);
            ASSERT_EQ(found, expected) << "text: " << text;
            ASSERT_EQ(gpt2().decode(found), text);
            ++texts;
        }
    }
    EXPECT_GE(texts, 2 * 3000);
}

TEST(Gpt2Tokenizer, KnowsItsVocabulary) {
    EXPECT_EQ(gpt2().vocab_size(), 50257);
    EXPECT_EQ(gpt2().end_of_document(), 50256);
    EXPECT_EQ(gpt2().encode("Hello world"), (Ids{15496, 995})); // published with GPT-2
    EXPECT_EQ(gpt2().decode(Ids{50256}), "<|endoftext|>");
    EXPECT_THROW(gpt2().decode(Ids{50257}), Error);
    EXPECT_THROW(gpt2().decode(Ids{-1}), Error);
    EXPECT_EQ(unicode_version(), "16.0.0");
}

TEST(Gpt2Tokenizer, KeepsBytesThatAreNotUtf8) {
    for (const std::string text :
         {"\xff", "a\x80z", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80 x", "\xe2\x82"})
        EXPECT_EQ(gpt2().decode(gpt2().encode(text)), text);
}

TEST(PreTokenizer, CutsAsTheRegularExpressionDoes) {
    const auto pieces = [](std::string_view text) {
        std::vector<std::string> found;
        Gpt2PreTokenizer cutter(text);
        for (std::string_view piece = cutter.next(); !piece.empty(); piece = cutter.next())
            found.emplace_back(piece);
        return found;
    };
    using Pieces = std::vector<std::string>;
    EXPECT_EQ(pieces("I'll  go"), (Pieces{"I", "'ll", " ", " go"}));
    EXPECT_EQ(pieces(" 's it's"), (Pieces{" '", "s", " it", "'s"}));
    EXPECT_EQ(pieces("a\n\n b  "), (Pieces{"a", "\n\n", " b", "  "}));
    EXPECT_EQ(pieces("x12.5\t?"), (Pieces{"x", "12", ".", "5", "\t", "?"}));
}

// The lowest rank first, the leftmost of equals: by the definition, with a search through all merges at every
// step.
Ids merge_by_definition(std::string_view piece, const BpeVocabulary& files) {
    Ids ids;
    for (const char byte : piece)
        ids.push_back(files.byte_ids[static_cast<unsigned char>(byte)]);
    for (bool merged = true; merged;) {
        merged = false;
        for (std::size_t rank = 0; rank < files.merges.size() && !merged; ++rank)
            for (std::size_t at = 0; at + 1 < ids.size() && !merged; ++at)
                if (ids[at] == files.merges[rank].left && ids[at + 1] == files.merges[rank].right) {
                    ids[at] = files.merges[rank].result;
                    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
                    merged = true;
                }
    }
    return ids;
}

TEST(BytePairEncoder, AllWaysFollowTheDefinition) {
    // A vocabulary in which two merges make the same token, "aba", so that ranks do not only rise.
    BpeVocabulary files;
    for (int byte = 0; byte < 256; ++byte)
        files.byte_ids[static_cast<std::size_t>(byte)] = byte;
    files.merges = {
        {'a', 'b', 256}, {256, 'a', 257}, {257, 257, 258}, {'b', 'a', 259}, {'a', 259, 257},
        {257, 'c', 260}, {'c', 'c', 261}, {261, 261, 262}, {260, 261, 263}, {'b', 'b', 264},
        {264, 'a', 265}, {'c', 267, 266}, {'c', 'a', 267}}; // the last but one uses what only the last makes
    const BytePairEncoder encoder(files.byte_ids, files.merges);
    BpeWorkspace workspace;
    std::mt19937 random(7);
    for (int round = 0; round < 3000; ++round) {
        std::string piece(1 + random() % BytePairEncoder::kLongestScanned, 'a');
        for (char& character : piece)
            character = static_cast<char>('a' + random() % 3);
        const Ids expected = merge_by_definition(piece, files);
        Ids scanned, listed, windowed;
        encoder.encode_by_scan(piece, scanned);
        encoder.encode_by_lists(piece, workspace, listed);
        encoder.encode_by_windows(piece, workspace, windowed, {}, 1 + random() % 9, 1 + random() % 3);
        ASSERT_EQ(scanned, expected) << piece;
        ASSERT_EQ(listed, expected) << piece;
        ASSERT_EQ(windowed, expected) << piece;
    }
}

// Windows are exact whatever the merges, also those that no training would make: pairs of tokens at random,
// in which tokens far away matter and several pairs make one token.
TEST(BytePairEncoder, WindowsFollowTheDefinitionWithAnyMerges) {
    std::mt19937 random(11);
    for (int vocabulary = 0; vocabulary < 400; ++vocabulary) {
        BpeVocabulary files;
        std::vector<std::string> bytes_of_id;
        for (int byte = 0; byte < 256; ++byte) {
            files.byte_ids[static_cast<std::size_t>(byte)] = byte;
            bytes_of_id.emplace_back(1, static_cast<char>(byte));
        }
        const unsigned letters = 1 + random() % 3;
        std::vector<std::int32_t> known;
        for (unsigned letter = 0; letter < letters; ++letter)
            known.push_back(static_cast<std::int32_t>('a' + letter));
        for (int merge = 0; merge < 12; ++merge) {
            const std::int32_t left = known[random() % known.size()], right = known[random() % known.size()];
            const std::string bytes =
                bytes_of_id[static_cast<std::size_t>(left)] + bytes_of_id[static_cast<std::size_t>(right)];
            const auto same = std::find(bytes_of_id.begin(), bytes_of_id.end(), bytes);
            files.merges.push_back({left, right, static_cast<std::int32_t>(same - bytes_of_id.begin())});
            if (same == bytes_of_id.end()) {
                known.push_back(static_cast<std::int32_t>(bytes_of_id.size()));
                bytes_of_id.push_back(bytes);
            }
        }
        std::shuffle(files.merges.begin(), files.merges.end(), random);
        const BytePairEncoder encoder(files.byte_ids, files.merges);
        BpeWorkspace workspace;
        for (int round = 0; round < 20; ++round) {
            std::string piece(1 + random() % 120, 'a');
            for (char& character : piece)
                character = static_cast<char>('a' + random() % letters);
            Ids windowed;
            encoder.encode_by_windows(piece, workspace, windowed, {}, 1 + random() % 12, 1 + random() % 3);
            ASSERT_EQ(windowed, merge_by_definition(piece, files))
                << piece << " in vocabulary " << vocabulary;
        }
    }
}

// Long words of every kind that is hard to cut: the windows against one window as large as the word, and the
// ids that go to a sink against those that stay.
TEST(BytePairEncoder, WindowsOfLongWordsFitTogether) {
    const BpeVocabulary files = read_gpt2_files("tests/data/gpt2/vocab.json", "tests/data/gpt2/merges.txt");
    const BytePairEncoder encoder(files.byte_ids, files.merges);
    BpeWorkspace workspace;
    std::mt19937 random(13);
    constexpr std::size_t kBytes = 1'000'000;
    const auto word = [&](const std::function<char(std::size_t)>& character) {
        std::string bytes(kBytes, ' ');
        for (std::size_t at = 0; at < kBytes; ++at)
            bytes[at] = character(at);
        return bytes;
    };
    std::string ideographs;
    while (ideographs.size() < kBytes) {
        const unsigned code_point = 0x4E00 + random() % 0x5200;
        ideographs +=
            {static_cast<char>(0xE0 | code_point >> 12), static_cast<char>(0x80 | (code_point >> 6 & 63)),
             static_cast<char>(0x80 | (code_point & 63))};
    }
    const std::vector<std::string> words = {
        word([](std::size_t) { return 'a'; }),
        word([](std::size_t) { return '-'; }), // tokens of up to 64 bytes
        word([](std::size_t at) { return "ab"[at % 2]; }),
        word([](std::size_t at) { return "abc"[at % 3]; }),
        word([](std::size_t at) { return "the"[at % 3]; }),
        word([&](std::size_t) { return static_cast<char>('a' + random() % 26); }),
        word([&](std::size_t) { return static_cast<char>('a' + random() % 2); }),
        word([&](std::size_t) { return static_cast<char>(random() % 256); }),
        ideographs,
    };
    for (const std::string& bytes : words) {
        Ids whole, windowed, rest, all;
        encoder.encode_by_lists(bytes, workspace, whole);
        encoder.encode_by_windows(bytes, workspace, windowed, {});
        ASSERT_TRUE(windowed == whole) << bytes.substr(0, 20);
        std::size_t largest = 0;
        encoder.encode_by_windows(bytes, workspace, rest, [&](std::span<const std::int32_t> ids) {
            all.insert(all.end(), ids.begin(), ids.end());
            largest = std::max(largest, ids.size());
        });
        EXPECT_LE(rest.size(), std::size_t{1} << 20);
        EXPECT_LE(largest, std::size_t{1} << 20);
        all.insert(all.end(), rest.begin(), rest.end());
        ASSERT_TRUE(all == whole) << bytes.substr(0, 20);
    }
}

TEST(LowestRank, IsTheLowestOfASet) {
    for (const std::uint32_t ranks : {1u, 63u, 64u, 65u, 5000u, 300000u}) {
        LowestRank found(ranks);
        std::set<std::uint32_t> expected;
        std::mt19937 random(ranks);
        for (int step = 0; step < 5000; ++step) {
            const std::uint32_t rank = static_cast<std::uint32_t>(random() % ranks);
            if (random() % 2 == 0) {
                found.add(rank);
                expected.insert(rank);
            } else {
                found.remove(rank);
                expected.erase(rank);
            }
            ASSERT_EQ(found.empty(), expected.empty());
            if (!expected.empty()) {
                ASSERT_EQ(found.lowest(), *expected.begin());
            }
        }
    }
}

TEST(Gpt2Tokenizer, ReadsMergesWhateverTheirLineEnds) {
    const TemporaryDirectory directory;
    const std::string merges = read_file("tests/data/gpt2/merges.txt", ErrorCategory::data);
    std::string crlf;
    for (const char character : merges)
        crlf += character == '\n' ? std::string("\r\n") : std::string(1, character);
    const std::string text = "The quick brown fox doesn't jump over 12 lazy dogs, naïvely.";
    const Ids expected = gpt2().encode(text);
    for (const std::string& variant :
         {crlf, merges.substr(merges.find('\n') + 1), merges.substr(0, merges.size() - 1)}) {
        const auto path = directory.write("merges.txt", variant);
        EXPECT_EQ(load_gpt2_bpe("tests/data/gpt2/vocab.json", path)->encode(text), expected);
    }
}

TEST(Gpt2Tokenizer, RefusesFilesThatDoNotFit) {
    const TemporaryDirectory directory;
    const auto refusal = [&](const std::string& merges) {
        return message_of(
            [&] { load_gpt2_bpe("tests/data/gpt2/vocab.json", directory.write("merges.txt", merges)); });
    };
    EXPECT_NE(refusal("#version: 0.2\nĠ t\nĠt he\n").find("merges.txt:3: token \"he\" is used before"),
              std::string::npos);
    EXPECT_NE(refusal("Ġ t\nĠ t\n").find("merges.txt:2: the merge"), std::string::npos);
    EXPECT_NE(refusal("Ġ\n").find("merges.txt:1: \"Ġ\" is not a merge"), std::string::npos);
    EXPECT_NE(refusal("q ÿ\n").find("not in the vocabulary"), std::string::npos);
    const auto vocab_refusal = [&](const std::string& vocab) {
        return message_of(
            [&] { load_gpt2_bpe(directory.write("vocab.json", vocab), "tests/data/gpt2/merges.txt"); });
    };
    EXPECT_NE(vocab_refusal("{\"a\": 0").find("is not JSON"), std::string::npos);
    EXPECT_NE(vocab_refusal("[1]").find("one object"), std::string::npos);
    EXPECT_NE(vocab_refusal("{\"a\": 0, \"b\": 0}").find("belongs to two tokens"), std::string::npos);
    EXPECT_NE(vocab_refusal("{\"a\": -1}").find("is not an integer"), std::string::npos);
    EXPECT_NE(vocab_refusal("{\"a\": 0}").find("is missing"), std::string::npos);
    EXPECT_NE(message_of([] { load_gpt2_bpe("no/such/vocab.json", "x"); }).find("no/such/vocab.json"),
              std::string::npos);
}

} // namespace
} // namespace trireme::data
