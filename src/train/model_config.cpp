// The shape of a model, from options and back to them.
#include "trireme/train/model_config.hpp"

namespace trireme::train {
namespace {

catalogue::Positions positions(options::PositionEmbedding embedding) {
    switch (embedding) {
    case options::PositionEmbedding::learned_absolute:
        return catalogue::Positions::learned;
    case options::PositionEmbedding::rope:
        return catalogue::Positions::rotary;
    case options::PositionEmbedding::none:
        return catalogue::Positions::none;
    }
    TRIREME_ASSERT(false, "an unknown position embedding");
    return {};
}

catalogue::Biases biases(options::LinearBiases of) {
    switch (of) {
    case options::LinearBiases::all:
        return catalogue::Biases::all;
    case options::LinearBiases::query_key_value:
        return catalogue::Biases::query_key_value;
    case options::LinearBiases::none:
        return catalogue::Biases::none;
    }
    TRIREME_ASSERT(false, "unknown biases");
    return {};
}

// What tells today's models from GPT-2.
void fill_shape(catalogue::ModelConfig& config, const options::Resolved::Model& model) {
    config.positions = positions(model.position_embedding);
    if (config.positions == catalogue::Positions::rotary) {
        config.rotary.head_dim = model.kv_channels;
        config.rotary.percent = model.rotary_percent;
        config.rotary.base = static_cast<double>(model.rotary_base);
        if (model.rope_scaling_factor > 0)
            config.rotary.scaling = catalogue::RotaryScaling{.factor = model.rope_scaling_factor};
    }
    config.normalisation = model.normalization == options::Normalization::rms_norm
                               ? catalogue::Normalisation::rms_norm
                               : catalogue::Normalisation::layer_norm;
    config.norm_epsilon = model.norm_epsilon;
    config.activation = model.activation == options::MlpActivation::swiglu ? catalogue::Activation::swiglu
                                                                           : catalogue::Activation::gelu;
    config.output_layer = model.output_weights == options::OutputWeights::untied
                              ? catalogue::OutputLayer::own
                              : catalogue::OutputLayer::tied;
    config.biases = biases(model.biases);
}

} // namespace

DType weight_type(options::ParamsDtype type) {
    switch (type) {
    case options::ParamsDtype::fp32:
        return DType::f32;
    case options::ParamsDtype::fp64:
        return DType::f64;
    case options::ParamsDtype::bf16:
        return DType::bf16;
    }
    TRIREME_ASSERT(false, "an unknown type of parameters");
    return {};
}

catalogue::ModelConfig model_config(const options::Resolved::Model& model, std::int64_t vocabulary) {
    catalogue::ModelConfig config;
    config.layers = model.num_layers;
    config.hidden = model.hidden_size;
    config.heads = model.num_attention_heads;
    config.groups = model.num_query_groups;
    config.head_dim = model.kv_channels;
    config.ffn = model.ffn_hidden_size;
    config.vocabulary = vocabulary;
    config.vocabulary_multiple = model.make_vocab_size_divisible_by;
    config.max_positions = model.max_position_embeddings;
    config.sequence = model.seq_length;
    config.init_std = model.init_method_std;
    config.hidden_dropout = model.hidden_dropout;
    config.attention_dropout = model.attention_dropout;
    fill_shape(config, model);
    return config;
}

options::Values model_values(const catalogue::ModelConfig& config, DType type) {
    options::Values v = options::default_values();
    v.num_layers = config.layers;
    v.hidden_size = config.hidden;
    v.ffn_hidden_size = config.ffn;
    v.num_attention_heads = config.heads;
    v.kv_channels = config.head_dim;
    v.seq_length = config.sequence;
    v.max_position_embeddings = config.max_positions;
    v.make_vocab_size_divisible_by = config.vocabulary_multiple;
    v.init_method_std = config.init_std;
    v.hidden_dropout = config.hidden_dropout;
    v.attention_dropout = config.attention_dropout;
    v.params_dtype = name(type);
    v.norm_epsilon = config.norm_epsilon;
    v.normalization = config.normalisation == catalogue::Normalisation::rms_norm ? "RMSNorm" : "LayerNorm";
    v.swiglu = config.activation == catalogue::Activation::swiglu;
    v.untie_embeddings_and_output_weights = config.output_layer == catalogue::OutputLayer::own;
    v.disable_bias_linear = config.biases != catalogue::Biases::all;
    v.add_qkv_bias = config.biases == catalogue::Biases::query_key_value;
    if (config.groups != config.heads) {
        v.group_query_attention = true;
        v.num_query_groups = config.groups;
    }
    switch (config.positions) {
    case catalogue::Positions::learned:
        v.position_embedding_type = "learned_absolute";
        break;
    case catalogue::Positions::none:
        v.position_embedding_type = "none";
        break;
    case catalogue::Positions::rotary:
        v.position_embedding_type = "rope";
        v.rotary_base = static_cast<std::int64_t>(config.rotary.base);
        v.rotary_percent = config.rotary.percent;
        if (config.rotary.scaling) {
            v.use_rope_scaling = true;
            v.rope_scaling_factor = config.rotary.scaling->factor;
        }
    }
    return v;
}

} // namespace trireme::train
