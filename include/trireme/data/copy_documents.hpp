// Whole token files copied into new ones: several one after the other, or one in a shuffled order. Memory
// does not grow with the files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trireme/data/indexed_dataset.hpp"

namespace trireme::data {

// The documents of `from` in the order of the inputs. The ids are u16 if those of all inputs are, else i32.
// Throws Error (data) that names the input, and Error (output). `progress`, if any, is called with the tokens
// copied so far.
void merge_documents(std::span<const std::string> from, const std::string& to,
                     const std::function<void(std::int64_t tokens)>& progress = {});

// Document i of `to` is document p(i) of `from`, p a permutation given by the seed and the number of
// documents.
void shuffle_documents(const IndexedDataset& from, const std::string& to, std::uint64_t seed);

struct IdRange {
    std::int32_t smallest = 0, largest = -1; // largest < smallest: no tokens
};
// Looks at every token. Throws Error (data) that names document and position of an id outside
// [0, vocab_size).
IdRange verify_ids(const IndexedDataset& file, std::int64_t vocab_size,
                   const std::function<void(std::int64_t tokens)>& progress = {});

} // namespace trireme::data
