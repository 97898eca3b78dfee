// Reads GPT-2's vocab.json and merges.txt and checks that they fit together.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/bpe.hpp"

namespace trireme::data {

inline constexpr const char* kEndOfText = "<|endoftext|>";

struct Gpt2Files {
    std::vector<std::string> bytes_of_id; // by id; what decode() writes
    std::vector<bool> has_token;          // by id: ids may have gaps
    std::array<std::int32_t, 256> byte_ids{};
    std::vector<Merge> merges; // by rank
    std::int32_t end_of_text = 0;
};

// Throws Error (data) that names the file and, for merges, the line.
Gpt2Files read_gpt2_files(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt);

} // namespace trireme::data
