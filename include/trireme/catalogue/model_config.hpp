// The shape of a GPT, as every layer of the program understands it. Pure numbers; who parses options fills
// it.
#pragma once

#include <cstdint>

#include "trireme/catalogue/rotary.hpp"

namespace trireme::catalogue {

enum class Positions : std::uint8_t { learned, rotary, none };
enum class Normalisation : std::uint8_t { layer_norm, rms_norm };
enum class Activation : std::uint8_t { gelu, swiglu };
enum class OutputLayer : std::uint8_t { tied, own };             // tied: logits use the word embedding
enum class Biases : std::uint8_t { all, query_key_value, none }; // of linear layers

struct ModelConfig {
    std::int64_t layers = 0;
    std::int64_t hidden = 0;                // C
    std::int64_t heads = 0;                 // H
    std::int64_t groups = 0;                // G key/value groups; H for multi-head attention
    std::int64_t head_dim = 0;              // D, Megatron's kv-channels
    std::int64_t ffn = 0;                   // F
    std::int64_t vocabulary = 0;            // V, unpadded
    std::int64_t vocabulary_multiple = 128; // the padded vocabulary is a multiple of this times TP
    std::int64_t max_positions = 0;         // rows of the learned position table
    std::int64_t sequence = 0;              // T
    Positions positions = Positions::learned;
    Normalisation normalisation = Normalisation::layer_norm;
    Activation activation = Activation::gelu;
    OutputLayer output_layer = OutputLayer::tied;
    Biases biases = Biases::all;
    RotaryConfig rotary; // of Positions::rotary; head_dim is filled from above
    double norm_epsilon = 1e-5;
    double init_std = 0.02;
    double hidden_dropout = 0.1;
    double attention_dropout = 0.1;
};

// Rows of the vocabulary with padding; depends on the tensor-parallel size, so nothing that is stored or
// counted may.
std::int64_t padded_vocabulary(const ModelConfig& config, int tensor_size);

} // namespace trireme::catalogue
