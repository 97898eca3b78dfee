// The one list of a model's logical parameters. Initialisation, memory plan, parameter counts, gradient
// buckets, optimizer sharding, checkpoints and converters all read it.
//
// A logical parameter is what a checkpoint stores: a name, a global N-D shape without padding, and how it is
// cut over tensor ranks. Where the run packs several into one buffer (query, key and value into one matrix)
// they bear the same `pack` name and follow each other; each keeps its own entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/catalogue/model_config.hpp"
#include "trireme/tensor/tensor.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::catalogue {

enum class Initialisation : std::uint8_t { normal, zeros, ones };

// Which piece of the model a parameter belongs to. `tied` is a word embedding that the first stage owns and
// the last stage holds a copy of.
enum class Owner : std::uint8_t { embedding, tied, layer, head };

struct Parameter {
    std::string name; // "layers.3.attention.query.weight"
    std::string kind; // without the number: "layers.attention.query.weight"
    std::string pack; // "layers.3.attention.query_key_value.weight"; the name itself when alone
    std::vector<std::int64_t> shape; // global, unpadded
    Initialisation initialisation = Initialisation::zeros;
    double standard_deviation = 0; // of `normal`
    bool decays = false;           // weight decay: matrices and embeddings, not biases and norms
    Owner owner = Owner::layer;
    std::int64_t layer = -1; // global number, for Owner::layer
    int split_axis = -1;     // cut over tensor ranks along this axis; -1: every tensor rank holds it whole
    std::int64_t padded_extent = 0; // of the split axis before cutting (vocabulary); 0: no padding

    std::int64_t elements() const;
};

// What one tensor rank holds of a parameter.
struct Shard {
    topology::Box box; // of the global tensor, without padding
    Shape local;       // in memory, with padding rows at the end of axis 0
    // Tensor ranks that hold the same box, neighbours, and which of them this one is. All of them where
    // nothing is cut; where an axis is shorter than there are ranks (keys and values of few groups), as many
    // as there are ranks for each index: 2 groups over 4 ranks give boxes [0,1) [0,1) [1,2) [1,2).
    int holders = 1, holder = 0;
};

// In model order: embeddings, layers, final norm. The order and the names do not depend on the layout.
std::vector<Parameter> make_catalogue(const ModelConfig& config, int tensor_size);
// With the layers of these intervals, in ascending order, alone: what a stage of a deep model looks at.
std::vector<Parameter> make_catalogue(const ModelConfig& config, int tensor_size,
                                      std::span<const topology::Interval> layers);

// Tensor ranks that hold the same key/value group: 1 where there are groups for each rank. Throws Error
// (usage) if neither divides the other.
int key_value_holders(const ModelConfig& config, int tensor_size);

Shard shard(const Parameter& parameter, int tensor_size, int tensor_rank);

// Sum over logical parameters, each once.
std::int64_t parameter_count(const ModelConfig& config);

// Fills `local` (f32 or f64, host memory, shape shard.local) with the initial values of that box: element e
// of the global tensor in row-major order is a function of (seed, name, e) alone. Normal values by Box and
// Muller (1958) from 53-bit uniforms of philox4x32({e/2 low, e/2 high, name hash low, high}, key). Padding is
// zero.
// elements: which of the shard's, in row-major order of shard.local; they go to `to`, of as many elements.
void initialise(const Parameter& parameter, const Shard& shard, std::uint64_t seed,
                topology::Interval elements, Tensor to);

// Floating-point operations of one token's forward and backward pass: 6 a matmul parameter, the logits layer
// included, plus attention scores and values (12 * layers * heads * head_dim * sequence, half of that where
// the causal half is counted).
enum class AttentionFlops : std::uint8_t { causal, full };
struct PartFlops {
    double attention_scores; // of a layer: products of queries, keys and values
    double mlp;              // of a layer
    double layer;            // all of one
    double embedding;        // additions alone: no product, and not part of flops_per_token()
    double head;
};
PartFlops part_flops_per_token(const ModelConfig& config, AttentionFlops attention);
double flops_per_token(const ModelConfig& config, AttentionFlops attention);

} // namespace trireme::catalogue
