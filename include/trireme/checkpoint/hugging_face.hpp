// Models to and from the directories of Hugging Face's transformers: safetensors (one file, or pieces and an
// index) and config.json. GPT-2, Llama and Qwen 2.5. One process, no MPI; tensors pass through by pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/catalogue/model_config.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme::checkpoint {

struct HfExport {
    std::optional<DType> type; // of the weights; that of the checkpoint's parameters if not given
    std::int64_t max_shard_bytes = 5'000'000'000;
    std::optional<std::int64_t> end_of_document; // the id that ends a text, where it is known
    // (file, name in the directory)
    std::vector<std::pair<std::filesystem::path, std::string>> tokenizer_files;
};

// Writes the model of a checkpoint into the new directory `directory`. `model.vocabulary` is taken from the
// checkpoint. Throws Error: checkpoint (a shape that transformers does not have, not readable), output, usage
// (directory not empty).
void export_hf(const std::filesystem::path& checkpoint, catalogue::ModelConfig model,
               const std::filesystem::path& directory, const HfExport& how, std::ostream& out);

// A model of transformers, to be made a checkpoint.
class HfModel {
  public:
    // Reads config.json and the headers of the files. Throws Error (checkpoint): another architecture, files
    // missing or damaged, tensors missing, unknown or of another shape.
    explicit HfModel(const std::filesystem::path& directory);
    HfModel(HfModel&&) noexcept;
    HfModel& operator=(HfModel&&) noexcept;
    ~HfModel();

    const catalogue::ModelConfig& config() const; // sequence is 0
    DType type() const;                           // that keeps every bit of the word embedding

    // Makes `release` in `save`: weights to start from, and the marker that names it. `options`: as a
    // checkpoint keeps them. Throws Error: usage (there are checkpoints already), output, checkpoint.
    std::filesystem::path import(const std::filesystem::path& save, DType type, const std::string& options);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::checkpoint
