// JSONL to token files. Any number of threads share the work, and the files are the same bytes for any
// number: each thread takes the next block of lines, tokenizes it, waits for its turn and writes it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/indexed_dataset.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {

enum class OnBadLine { error, skip };
enum class EndOfDocument { omit, append };

struct PreprocessOptions {
    std::vector<std::string> inputs; // files, or "-"; all form one sequence of documents
    std::string output_prefix;       // writes PREFIX_KEY_document.bin and .idx for each key
    std::vector<std::string> json_keys = {"text"};
    EndOfDocument end_of_document = EndOfDocument::omit; // appended to documents that are not empty
    OnBadLine on_bad_line = OnBadLine::error;
    int workers = 1;
    std::optional<std::uint64_t> shuffle_seed; // documents in an order of this seed's, alike for all keys
    OlderPair older_pair = OlderPair::may_differ;
};

struct PreprocessProgress {
    std::int64_t input_bytes_read = 0;
    std::int64_t input_bytes = -1; // of all inputs; -1 when one of them is no file
    std::int64_t text_bytes = 0;
    std::int64_t documents = 0;
};

// "1.2 M documents, 40.1 K documents/s, 61.0 MiB/s of text, 12 %, 3 min left"
std::string describe(const PreprocessProgress& progress, double seconds);

struct PreprocessResult {
    std::vector<std::string> prefixes;
    std::int64_t documents = 0;       // for each key
    std::int64_t empty_documents = 0; // of all keys
    std::int64_t tokens = 0;          // of all keys
    std::int64_t text_bytes = 0;
    std::int64_t bad_lines = 0;
    std::vector<std::string> first_bad_lines; // "FILE:LINE: reason", at most ten
};

// Throws Error: data for a bad line ("FILE:LINE: reason") and for damaged input, output where writing fails.
// `progress`, if any, is called now and then by one thread at a time.
PreprocessResult preprocess(const Tokenizer& tokenizer, const PreprocessOptions& options,
                            const std::function<void(const PreprocessProgress&)>& progress = {});

} // namespace trireme::data
