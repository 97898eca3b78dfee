// What a byte-level BPE tokenizer is made of, whatever files it came from.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/bpe.hpp"
#include "trireme/base/hash.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {

inline constexpr const char* kEndOfText = "<|endoftext|>";

enum class PieceRule { gpt2, llama3, qwen2 };    // pre_tokenizer.hpp, case_blind_pre_tokenizer.hpp
enum class Normalization { none, nfc };          // of the text before it is cut into pieces
enum class WholePieces { are_merged, go_first }; // go_first: a piece that is a token is that token

struct BpeVocabulary {
    std::vector<std::string> bytes_of_id; // by id; what decode() writes
    std::vector<bool> has_token;          // by id: ids may have gaps
    std::array<std::int32_t, 256> byte_ids{};
    std::vector<Merge> merges; // by rank
    std::int32_t end_of_text = 0;
    std::vector<std::pair<std::string, std::int32_t>> special; // spelling and id
    PieceRule pieces = PieceRule::gpt2;
    Normalization normalization = Normalization::none;
    WholePieces whole_pieces = WholePieces::are_merged;
    std::uint64_t fingerprint = 0; // of the files
};

std::unique_ptr<Tokenizer> make_byte_level_bpe(BpeVocabulary vocabulary, SpecialTokens special);

// Throws Error (data) that names the file and, for merges, the line.
BpeVocabulary read_gpt2_files(const std::filesystem::path& vocab_json,
                              const std::filesystem::path& merges_txt);

} // namespace trireme::data
