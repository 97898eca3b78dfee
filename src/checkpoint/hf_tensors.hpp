// The tensors of GPT-2, Llama and Qwen 2.5 as transformers names and cuts them, each made of logical
// parameters of the catalogue: one list, by which models are exported and imported.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trireme/catalogue/catalogue.hpp"

namespace trireme::checkpoint {

enum class HfFamily : std::uint8_t { gpt2, llama, qwen2 };

// How matrices lie in the file: [out, in] as here, or [in, out] as in GPT-2's Conv1D.
enum class Orientation : std::uint8_t { as_here, transposed };

// One tensor of the file. Its sources follow each other along the output axis.
//     q_proj.weight [H D, C]         as_here of query.weight [H, D, C]
//     c_attn.weight [C, 3 H D]       transposed of query, key and value
//     c_attn.bias [3 H D]            as_here of three biases [H, D]
struct HfTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    Orientation orientation = Orientation::as_here;
    std::vector<catalogue::Parameter> sources;
    std::int64_t elements() const;
};

// In the order of the catalogue; `lm_head.weight` only where the output layer has weights of its own.
std::vector<HfTensor> hf_tensors(HfFamily family, const catalogue::ModelConfig& config);

// Where the names of the bare model (without a head) differ: "transformer." or "model.".
std::string bare_prefix(HfFamily family);
// Masks and frequencies that older files hold, which are no parameters.
bool is_buffer(HfFamily family, const std::string& name);

// A part of a source and where its elements go in a piece: element (row, column) of the box, seen as a matrix
// of `rows` outputs, goes to offset + row * row_step + column * column_step.
struct SourcePart {
    const catalogue::Parameter* source = nullptr;
    topology::Box box;
    std::int64_t rows = 0, columns = 0;
    std::int64_t offset = 0, row_step = 0, column_step = 0;
};
// Cuts the tensor into runs of its row-major elements, at most `limit` each where a row of it allows:
// use(elements of the run, its parts), in ascending order.
void for_each_run(const HfTensor& tensor, std::int64_t limit,
                  const std::function<void(const topology::Interval&, std::span<const SourcePart>)>& use);

} // namespace trireme::checkpoint
