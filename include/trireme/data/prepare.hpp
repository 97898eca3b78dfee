// JSONL files given straight to training: their tokens are written once into a cache and found again by later
// runs. The name of the cached pair holds the size and time of the file and the tokenizer, so that a changed
// file or another tokenizer gets a pair of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/data/preprocess.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {

// Whether a word of --data-path is such a file: a regular file that is not the prefix of a .bin/.idx pair.
bool is_text_file(const std::string& word);

// The prefix of the tokens of `file` in `cache_directory` ("": beside the file). Throws Error (data) when the
// file cannot be examined.
std::string prepared_prefix(const std::string& file, const std::string& cache_directory,
                            const Tokenizer& tokenizer);

// Bytes of a .bin/.idx pair, -1 for one that is not there.
struct PairSizes {
    std::int64_t bin = -1, idx = -1;
    bool complete() const { return bin >= 0 && idx >= 0; }
    bool operator==(const PairSizes&) const = default;
};
PairSizes pair_sizes(const std::string& prefix);

// Removes what killed preparations of the same text file on this host have left beside the pair.
std::vector<std::filesystem::path> remove_leftovers(const std::string& prefix);

// Writes the pair: the key "text" of each line, each document ended with <|endoftext|>. Throws Error (data or
// output).
PreprocessResult prepare(const std::string& file, const std::string& prefix, const Tokenizer& tokenizer,
                         int workers, const std::function<void(const PreprocessProgress&)>& progress = {});

} // namespace trireme::data
