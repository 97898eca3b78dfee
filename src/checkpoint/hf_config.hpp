// The config.json of transformers, as far as it describes GPT-2, Llama or Qwen 2.5; what it asks for beyond
// that is refused by name, since a rule that is left out would change results without a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/hf_tensors.hpp"
#include "trireme/catalogue/model_config.hpp"
#include "trireme/storage/safetensors.hpp"

namespace trireme::checkpoint {

struct HfConfig {
    HfFamily family = HfFamily::gpt2;
    catalogue::ModelConfig model; // `sequence` is left at 0: transformers has none
};

// Throws Error (checkpoint): not readable, another family, something that trireme does not have.
HfConfig read_hf_config(const std::filesystem::path& path);

// The family whose shape this is. Throws Error (checkpoint) that says what no family has.
HfFamily family_of(const catalogue::ModelConfig& model);

// config.json. `end_of_document`: the id that ends a text, where it is known.
std::string hf_config_text(HfFamily family, const catalogue::ModelConfig& model, storage::FloatType type,
                           std::optional<std::int64_t> end_of_document);

} // namespace trireme::checkpoint
