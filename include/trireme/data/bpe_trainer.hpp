// Learns a GPT-2 style byte-level BPE from text: again and again the most frequent pair of neighbours within
// words becomes a token; of equally frequent pairs the one with the lower ids. The result depends on the
// words and their counts alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::data {

struct TrainedBpe {
    std::vector<std::string>
        tokens; // the bytes of each id: 256 bytes, then the merges; <|endoftext|> comes after them
    std::vector<std::pair<std::string, std::string>> merges; // the bytes of both parts, by rank

    std::string vocab_json() const;
    std::string merges_txt() const;
};

class BpeTrainer {
  public:
    // Counts the words of a document. Words of more than kLongestWord bytes (rulers, data) are left out.
    void add(std::string_view text);
    static constexpr std::size_t kLongestWord = 256;

    // Adds the counts of another trainer. Memory is bounded: beyond `most_words` different words the rarest
    // are left out, until half remain. The result depends on the order of calls alone.
    void absorb(const BpeTrainer& other, std::int64_t most_words = kMostWords);
    static constexpr std::int64_t kMostWords = 4'000'000; // about half a gigabyte

    std::int64_t distinct_words() const { return static_cast<std::int64_t>(counts_.size()); }

    // Stops early, with a smaller vocabulary, when no pair occurs twice. vocab_size counts <|endoftext|> and
    // is at least 257. `progress`, if any, is called with the number of tokens so far.
    TrainedBpe train(std::int64_t vocab_size,
                     const std::function<void(std::int64_t tokens)>& progress = {}) const;

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

struct CountedText {
    BpeTrainer trainer;
    std::int64_t documents = 0;
    std::int64_t text_bytes = 0;
};

// Counts the words of JSONL files (or "-") with some threads; the result is the same for any number. Throws
// Error (data) for a bad line. `progress`, if any, is called by one thread at a time.
CountedText count_words(const std::vector<std::string>& inputs, const std::vector<std::string>& keys,
                        int workers, const std::function<void(std::int64_t text_bytes)>& progress = {});

} // namespace trireme::data
