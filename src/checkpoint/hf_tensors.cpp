// Names of transformers, and the index maths between its tensors and ours.
#include "checkpoint/hf_tensors.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>

namespace trireme::checkpoint {
namespace {

// A kind of parameter (catalogue::Parameter::kind) and its name there, # being the layer.
struct NameRow {
    std::string_view kind, gpt2, llama;
};
constexpr std::array kNames{
    NameRow{"embedding.word.weight", "transformer.wte.weight", "model.embed_tokens.weight"},
    NameRow{"embedding.position.weight", "transformer.wpe.weight", ""},
    NameRow{"layers.attention_norm.", "transformer.h.#.ln_1.", "model.layers.#.input_layernorm."},
    NameRow{"layers.attention.query.", "transformer.h.#.attn.c_attn.", "model.layers.#.self_attn.q_proj."},
    NameRow{"layers.attention.key.", "transformer.h.#.attn.c_attn.", "model.layers.#.self_attn.k_proj."},
    NameRow{"layers.attention.value.", "transformer.h.#.attn.c_attn.", "model.layers.#.self_attn.v_proj."},
    NameRow{"layers.attention.projection.", "transformer.h.#.attn.c_proj.",
            "model.layers.#.self_attn.o_proj."},
    NameRow{"layers.mlp_norm.", "transformer.h.#.ln_2.", "model.layers.#.post_attention_layernorm."},
    NameRow{"layers.mlp.gate.", "", "model.layers.#.mlp.gate_proj."},
    NameRow{"layers.mlp.up.", "transformer.h.#.mlp.c_fc.", "model.layers.#.mlp.up_proj."},
    NameRow{"layers.mlp.down.", "transformer.h.#.mlp.c_proj.", "model.layers.#.mlp.down_proj."},
    NameRow{"final_norm.", "transformer.ln_f.", "model.norm."},
    NameRow{"output.weight", "lm_head.weight", "lm_head.weight"},
};

std::string hf_name(HfFamily family, const catalogue::Parameter& parameter) {
    for (const NameRow& row : kNames) {
        if (!parameter.kind.starts_with(row.kind))
            continue;
        std::string name(family == HfFamily::gpt2 ? row.gpt2 : row.llama);
        TRIREME_ASSERT(!name.empty(), parameter.name, " has no place in this family");
        if (const std::size_t number = name.find('#'); number != std::string::npos)
            name.replace(number, 1, std::to_string(parameter.layer));
        return name + parameter.kind.substr(row.kind.size()); // weight or bias
    }
    TRIREME_ASSERT(false, "no name for ", parameter.kind);
    return {};
}

std::int64_t product(std::span<const std::int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

// How many of the axes of a parameter are outputs of its layer: [H, D, C] has two, [C, H, D] one, vectors
// all.
std::size_t output_axes(const catalogue::Parameter& parameter) {
    if (!parameter.decays) // biases and norms
        return parameter.shape.size();
    return parameter.kind.ends_with("query.weight") || parameter.kind.ends_with("key.weight") ||
                   parameter.kind.ends_with("value.weight")
               ? 2
               : 1;
}
std::int64_t outputs(const catalogue::Parameter& parameter) {
    return product(std::span(parameter.shape).first(output_axes(parameter)));
}
std::int64_t inputs(const catalogue::Parameter& parameter) {
    return product(std::span(parameter.shape).subspan(output_axes(parameter)));
}

// Layers of GPT-2 are Conv1D; its embeddings and the output layer are not.
Orientation orientation_of(HfFamily family, const catalogue::Parameter& parameter) {
    return family == HfFamily::gpt2 && parameter.owner == catalogue::Owner::layer && parameter.decays
               ? Orientation::transposed
               : Orientation::as_here;
}

// Rows [rows.begin, rows.end) of a file's tensor that lies as here: runs of the sources' own elements.
std::vector<SourcePart> parts_as_here(const HfTensor& tensor, const topology::Interval& rows) {
    std::vector<SourcePart> parts;
    std::int64_t first_row = 0, offset = 0;
    for (const catalogue::Parameter& source : tensor.sources) {
        const std::int64_t width = inputs(source);
        const topology::Interval held = topology::intersect(rows, {first_row, first_row + outputs(source)});
        if (!held.empty())
            for (topology::Box& box : topology::boxes_of_flat_range(
                     source.shape, {(held.begin - first_row) * width, (held.end - first_row) * width})) {
                const std::int64_t count = box.elements();
                parts.push_back({&source, std::move(box), 1, count, offset, count, 1});
                offset += count;
            }
        first_row += outputs(source);
    }
    return parts;
}

// Rows of a transposed tensor are inputs: all outputs of some inputs.
std::vector<SourcePart> parts_transposed(const HfTensor& tensor, const topology::Interval& rows) {
    std::vector<SourcePart> parts;
    const std::int64_t row = tensor.shape[1];
    std::int64_t first_output = 0;
    for (const catalogue::Parameter& source : tensor.sources) {
        const std::size_t outer = output_axes(source);
        std::int64_t first_input = 0; // within the run
        for (const topology::Box& inner :
             topology::boxes_of_flat_range(std::span(source.shape).subspan(outer), rows)) {
            topology::Box box = topology::Box::whole(std::span(source.shape).first(outer));
            box.axes.insert(box.axes.end(), inner.axes.begin(), inner.axes.end());
            const std::int64_t columns = inner.elements();
            parts.push_back({&source, std::move(box), outputs(source), columns,
                             first_input * row + first_output, 1, row});
            first_input += columns;
        }
        first_output += outputs(source);
    }
    return parts;
}

} // namespace

std::int64_t HfTensor::elements() const {
    return product(shape);
}

std::vector<HfTensor> hf_tensors(HfFamily family, const catalogue::ModelConfig& config) {
    std::vector<HfTensor> tensors;
    for (catalogue::Parameter& parameter : catalogue::make_catalogue(config, 1)) {
        std::string name = hf_name(family, parameter);
        if (tensors.empty() || tensors.back().name != name)
            tensors.push_back({std::move(name), {}, orientation_of(family, parameter), {}});
        tensors.back().sources.push_back(std::move(parameter));
    }
    for (HfTensor& tensor : tensors) {
        std::int64_t out = 0;
        for (const catalogue::Parameter& source : tensor.sources)
            out += outputs(source);
        tensor.shape = {out};
        if (tensor.sources.front().decays) // a matrix
            tensor.shape.insert(tensor.orientation == Orientation::transposed ? tensor.shape.begin()
                                                                              : tensor.shape.end(),
                                inputs(tensor.sources.front()));
    }
    return tensors;
}

std::string bare_prefix(HfFamily family) {
    return family == HfFamily::gpt2 ? "transformer." : "model.";
}

bool is_buffer(HfFamily family, const std::string& name) {
    if (family == HfFamily::gpt2)
        return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    return name.ends_with(".rotary_emb.inv_freq");
}

void for_each_run(const HfTensor& tensor, std::int64_t limit,
                  const std::function<void(const topology::Interval&, std::span<const SourcePart>)>& use) {
    const std::int64_t row = product(std::span(tensor.shape).subspan(1));
    const std::int64_t step = std::max<std::int64_t>(1, limit / row);
    for (std::int64_t first = 0; first < tensor.shape[0]; first += step) {
        const topology::Interval rows{first, std::min(first + step, tensor.shape[0])};
        const std::vector<SourcePart> parts = tensor.orientation == Orientation::transposed
                                                  ? parts_transposed(tensor, rows)
                                                  : parts_as_here(tensor, rows);
        use({rows.begin * row, rows.end * row}, parts);
    }
}

} // namespace trireme::checkpoint
