// The options of `trireme checkpoint ...`, and the model that a checkpoint's options describe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/options/parse.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::options {

struct CheckpointTool {
    Command command = Command::checkpoint_inspect;
    std::vector<std::string> paths; // as many as the command has operands
    bool norms = false;
    std::string load, save;           // of export and import
    std::optional<std::int64_t> step; // of export
    std::int64_t max_shard_bytes = 0;
    std::optional<ParamsDtype> type;                     // asked for; else what the tensors have
    std::optional<std::int64_t> seq_length;              // of an imported model
    std::string vocab_file, merge_file, tokenizer_model; // to copy beside an exported model; "": none
};

// Throws one Error (usage) with all problems of `parsed` and what is missing.
CheckpointTool resolve_checkpoint_tool(const Parsed& parsed);

// The shape that the options of a checkpoint describe. Throws Error (usage).
Resolved::Model model_in(const Inherited& checkpoint);

// "5GB" is 5 * 10^9 bytes, "5GiB" 5 * 2^30; nothing if the text is no size.
std::optional<std::int64_t> to_bytes(std::string_view text);

} // namespace trireme::options
