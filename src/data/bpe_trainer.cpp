// BpeTrainer: pair counts are kept up to date, so that a merge costs only the words it changes. Each pair
// knows the words that may hold it; the queue may hold outdated counts, which are noticed when they come up.
#include "trireme/data/bpe_trainer.hpp"

#include <algorithm>
#include <queue>

#include "data/bpe_vocabulary.hpp"
#include "data/byte_alphabet.hpp"
#include "data/pre_tokenizer.hpp"
#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

using PairKey = std::uint64_t; // left id in the upper half, so that keys order as (left, right)

PairKey pair_key(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
           static_cast<std::uint32_t>(right);
}

struct PairHash {
    std::size_t operator()(PairKey key) const {
        key *= 0x9E3779B97F4A7C15ull;
        return key ^ (key >> 29);
    }
};

struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words; // ascending is not needed, repeats are harmless
};

struct Word {
    std::vector<std::int32_t> ids;
    std::int64_t count;
};

struct Candidate {
    std::int64_t count;
    PairKey key;
    // The queue's top is the largest: the highest count, then the lowest key.
    bool operator<(const Candidate& other) const {
        return count != other.count ? count < other.count : key > other.key;
    }
};

class Training {
  public:
    Training(std::vector<std::pair<std::string_view, std::int64_t>> counted) {
        std::array<std::int32_t, 256> byte_ids;
        for (std::size_t order = 0; order < 256; ++order) {
            const std::uint8_t byte = kByteAlphabet.byte_in_order[order];
            byte_ids[byte] = static_cast<std::int32_t>(order);
            result_.tokens.emplace_back(1, static_cast<char>(byte));
            id_of_.emplace(result_.tokens.back(), static_cast<std::int32_t>(order));
        }
        for (const auto& [text, count] : counted) {
            Word word{{}, count};
            for (const char byte : text)
                word.ids.push_back(byte_ids[static_cast<unsigned char>(byte)]);
            words_.push_back(std::move(word));
        }
        for (std::uint32_t word = 0; word < words_.size(); ++word)
            for (std::size_t at = 0; at + 1 < words_[word].ids.size(); ++at)
                note(pair_key(words_[word].ids[at], words_[word].ids[at + 1]), word);
        for (const auto& [key, pair] : pairs_)
            queue_.push({pair.count, key});
    }

    // Adds one merge; false when no pair occurs twice.
    bool step() {
        while (!queue_.empty()) {
            const Candidate best = queue_.top();
            queue_.pop();
            const std::int64_t count = pairs_.at(best.key).count;
            if (count == best.count && count > 1) {
                merge(best.key);
                return true;
            }
            if (count > 1)
                queue_.push({count, best.key});
        }
        return false;
    }

    std::int64_t tokens() const { return static_cast<std::int64_t>(result_.tokens.size()); }
    TrainedBpe take() { return std::move(result_); }

  private:
    void note(PairKey key, std::uint32_t word) {
        Pair& pair = pairs_[key];
        pair.count += words_[word].count;
        if (pair.words.empty() || pair.words.back() != word)
            pair.words.push_back(word);
    }

    void merge(PairKey key) {
        const auto left = static_cast<std::int32_t>(key >> 32),
                   right = static_cast<std::int32_t>(key & 0xFFFFFFFFu);
        const std::string bytes =
            result_.tokens[static_cast<std::size_t>(left)] + result_.tokens[static_cast<std::size_t>(right)];
        result_.merges.emplace_back(result_.tokens[static_cast<std::size_t>(left)],
                                    result_.tokens[static_cast<std::size_t>(right)]);
        // Two pairs can spell the same bytes ("ab" "c" and "a" "bc"): one token.
        const auto [found, is_new] = id_of_.emplace(bytes, static_cast<std::int32_t>(result_.tokens.size()));
        if (is_new)
            result_.tokens.push_back(bytes);
        const std::int32_t merged = found->second;

        std::vector<std::uint32_t> affected;
        affected.swap(pairs_.at(key).words);
        std::vector<PairKey> grown;
        for (const std::uint32_t index : affected) {
            std::vector<std::int32_t>& ids = words_[index].ids;
            const std::int64_t count = words_[index].count;
            bool holds = false;
            for (std::size_t at = 0; at + 1 < ids.size() && !holds; ++at)
                holds = ids[at] == left && ids[at + 1] == right;
            if (!holds)
                continue;
            for (std::size_t at = 0; at + 1 < ids.size(); ++at)
                pairs_.at(pair_key(ids[at], ids[at + 1])).count -= count;
            std::size_t kept = 0;
            for (std::size_t at = 0; at < ids.size(); ++kept) {
                const bool here = ids[at] == left && at + 1 < ids.size() && ids[at + 1] == right;
                ids[kept] = here ? merged : ids[at];
                at += here ? 2 : 1;
            }
            ids.resize(kept);
            for (std::size_t at = 0; at + 1 < ids.size(); ++at) {
                const PairKey now = pair_key(ids[at], ids[at + 1]);
                if (ids[at] == merged || ids[at + 1] == merged) {
                    note(now, index);
                    grown.push_back(now);
                } else {
                    pairs_.at(now).count += count;
                }
            }
        }
        std::sort(grown.begin(), grown.end());
        grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
        for (const PairKey now : grown)
            queue_.push({pairs_.at(now).count, now});
    }

    std::vector<Word> words_;
    std::unordered_map<PairKey, Pair, PairHash> pairs_;
    std::priority_queue<Candidate> queue_;
    std::unordered_map<std::string, std::int32_t> id_of_;
    TrainedBpe result_;
};

// A spelling in the byte alphabet holds no control characters, so two need a backslash.
std::string json_string(std::string_view text) {
    std::string quoted = "\"";
    for (const char character : text) {
        if (character == '"' || character == '\\')
            quoted += '\\';
        quoted += character;
    }
    return quoted + "\"";
}

} // namespace

void BpeTrainer::add(std::string_view text) {
    Gpt2PreTokenizer pieces(text);
    for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
        if (piece.size() > kLongestWord)
            continue;
        const auto found = counts_.find(piece);
        if (found != counts_.end())
            ++found->second;
        else
            counts_.emplace(piece, 1);
    }
}

void BpeTrainer::absorb(const BpeTrainer& other, std::int64_t most_words) {
    for (const auto& [word, count] : other.counts_)
        counts_[word] += count;
    if (distinct_words() <= most_words)
        return;
    for (std::int64_t rarest = 1; 2 * distinct_words() > most_words; ++rarest)
        std::erase_if(counts_, [&](const auto& word) { return word.second <= rarest; });
}

TrainedBpe BpeTrainer::train(std::int64_t vocab_size,
                             const std::function<void(std::int64_t)>& progress) const {
    TRIREME_ASSERT(vocab_size >= 257, "a vocabulary of ", vocab_size);
    std::vector<std::pair<std::string_view, std::int64_t>> words(counts_.begin(), counts_.end());
    std::sort(words.begin(), words.end());
    Training training(std::move(words));
    while (training.tokens() < vocab_size - 1 && training.step())
        if (progress)
            progress(training.tokens());
    return training.take();
}

std::string TrainedBpe::vocab_json() const {
    std::string text = "{";
    for (std::size_t id = 0; id < tokens.size(); ++id)
        text += concat(json_string(spell_bytes(tokens[id])), ": ", id, ", ");
    return text + concat(json_string(kEndOfText), ": ", tokens.size(), "}\n");
}

std::string TrainedBpe::merges_txt() const {
    std::string text = "#version: 0.2\n";
    for (const auto& [left, right] : merges)
        text += concat(spell_bytes(left), " ", spell_bytes(right), "\n");
    return text;
}

} // namespace trireme::data
