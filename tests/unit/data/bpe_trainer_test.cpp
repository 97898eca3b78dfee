// Learning a vocabulary: against a reference here that recounts every pair at every step, and through the
// files that the tokenizer reads.
#include "trireme/data/bpe_trainer.hpp"

#include <gtest/gtest.h>
#include <map>

#include "data_test_support.hpp"
#include "trireme/base/file.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {
namespace {

// Words separated by the test itself, so that nothing of the pre-tokenizer is needed.
std::vector<std::pair<std::string, std::string>> merges_by_recounting(const std::vector<std::string>& texts,
                                                                      std::size_t merges) {
    std::map<std::string, int> order; // GPT-2's order of the single bytes
    const auto add = [&](int from, int to) {
        for (int byte = from; byte <= to; ++byte)
            order.emplace(std::string(1, static_cast<char>(byte)), static_cast<int>(order.size()));
    };
    add(0x21, 0x7E), add(0xA1, 0xAC), add(0xAE, 0xFF), add(0, 0x20), add(0x7F, 0xA0), add(0xAD, 0xAD);
    std::vector<std::vector<std::string>> words;
    for (const std::string& text : texts)
        for (std::size_t at = 0; at < text.size();) { // a space belongs to the word after it
            const std::size_t end = std::min(text.find(' ', at + 1), text.size());
            words.emplace_back();
            for (; at < end; ++at)
                words.back().emplace_back(1, text[at]);
        }
    std::vector<std::pair<std::string, std::string>> learned;
    while (learned.size() < merges) {
        std::map<std::pair<int, int>, std::pair<int, std::pair<std::string, std::string>>> counts;
        for (const auto& word : words)
            for (std::size_t at = 0; at + 1 < word.size(); ++at) {
                auto& entry = counts[{order.at(word[at]), order.at(word[at + 1])}];
                ++entry.first;
                entry.second = {word[at], word[at + 1]};
            }
        int best = 1;
        std::pair<std::string, std::string> pair;
        for (const auto& [ids, entry] :
             counts) // in the order of the ids, so the first of the most frequent wins
            if (entry.first > best) {
                best = entry.first;
                pair = entry.second;
            }
        if (best == 1)
            break;
        learned.push_back(pair);
        order.emplace(pair.first + pair.second, static_cast<int>(order.size()));
        for (auto& word : words)
            for (std::size_t at = 0; at + 1 < word.size(); ++at)
                if (word[at] == pair.first && word[at + 1] == pair.second) {
                    word[at] += word[at + 1];
                    word.erase(word.begin() + static_cast<std::ptrdiff_t>(at) + 1);
                }
    }
    return learned;
}

TEST(BpeTrainer, LearnsWhatRecountingLearns) {
    const std::vector<std::string> texts = {
        "the ships of the line sailed and the three banks of oars moved the ship along the coast of the "
        "island",
        "aaaa aaa aaaaaaa aaaaa aa abab ababab babab aab aabb abcabc bcabc cabcab abcab",
        "banana bandana ananas nana anna", "x"};
    BpeTrainer trainer;
    for (const std::string& text : texts)
        trainer.add(text);
    for (const std::size_t merges : {1, 5, 30, 1000}) {
        const TrainedBpe trained = trainer.train(static_cast<std::int64_t>(257 + merges));
        const auto expected = merges_by_recounting(texts, merges);
        // A merge that spells a token which is there already adds a merge but no token.
        ASSERT_GE(trained.merges.size(), std::min(merges, expected.size()));
        for (std::size_t rank = 0; rank < std::min(merges, expected.size()); ++rank)
            ASSERT_EQ(trained.merges[rank], expected[rank]) << "rank " << rank;
        EXPECT_LE(trained.tokens.size(), 256 + merges);
    }
}

TEST(BpeTrainer, WritesFilesThatTheTokenizerReads) {
    const std::string text = "Der Zug f\xC3\xA4hrt ab; the \"train\" \\leaves\\ at 12:30, at 12:45 and at "
                             "12:59.\n\tAt 13:00 it left.";
    BpeTrainer trainer;
    for (int repeat = 0; repeat < 3; ++repeat)
        trainer.add(text);
    trainer.add(std::string(5000, '=')); // too long to be a word
    const TrainedBpe trained = trainer.train(290);
    EXPECT_EQ(trained.tokens.size(), 289u);
    EXPECT_EQ(trained.merges_txt().substr(0, 14), "#version: 0.2\n");
    EXPECT_EQ(trained.merges_txt().find("= ="), std::string::npos);
    const TemporaryDirectory directory;
    const auto tokenizer = load_gpt2_bpe(directory.write("vocab.json", trained.vocab_json()),
                                         directory.write("merges.txt", trained.merges_txt()));
    EXPECT_EQ(tokenizer->vocab_size(), 290);
    EXPECT_EQ(tokenizer->end_of_document(), 289);
    const std::vector<std::int32_t> ids = tokenizer->encode(text);
    EXPECT_LT(ids.size(), text.size());
    EXPECT_EQ(tokenizer->decode(ids), text);
    EXPECT_EQ(tokenizer->encode("!"), (std::vector<std::int32_t>{0}));    // GPT-2's order of the bytes
    EXPECT_EQ(tokenizer->encode("\n"), (std::vector<std::int32_t>{198})); // as in GPT-2's own vocabulary
}

TEST(CountWords, IsTheSameForAnyNumberOfWorkers) {
    const TemporaryDirectory directory;
    std::string jsonl;
    for (int line = 0; jsonl.size() < 2'000'000; ++line)
        jsonl += concat("{\"text\": \"line ", line, " of many, and some words of ", line % 97, "\"}\n");
    const std::vector<std::string> inputs = {directory.write("a.jsonl", jsonl).string(),
                                             "tests/data/tiny/corpus.jsonl"};
    const auto learn = [&](int workers) {
        const CountedText counted = count_words(inputs, {"text"}, workers);
        return concat(counted.documents, counted.text_bytes, counted.trainer.train(400).merges_txt());
    };
    const std::string once = learn(1);
    EXPECT_EQ(learn(3), once);
    const std::string bad = directory.write("bad.jsonl", jsonl + "{\"text\": 1}\n" + jsonl + "x\n").string();
    for (const int workers : {1, 3})
        EXPECT_NE(
            message_of([&] { count_words({bad}, {"text"}, workers); }).find("the value of \"text\" is not"),
            std::string::npos);
    EXPECT_EQ(exit_code_of([&] { count_words({directory.prefix("none")}, {"text"}, 2); }), 3);
}

TEST(BpeTrainer, LeavesOutTheRarestWordsBeyondItsBound) {
    BpeTrainer all, more;
    for (int word = 0; word < 100; ++word)
        for (int times = 0; times <= word / 10; ++times) // ten words each come once, twice, ... ten times
            more.add(std::string(static_cast<std::size_t>(word + 1), 'x'));
    all.absorb(more, 100);
    EXPECT_EQ(all.distinct_words(), 100);
    BpeTrainer bounded;
    bounded.absorb(more, 99);
    EXPECT_EQ(bounded.distinct_words(),
              40); // of six times and more there are 50, and twice that is more than 99
}

} // namespace
} // namespace trireme::data
