// Expands a ModelConfig to the list of logical parameters and cuts them over tensor ranks.
#include "trireme/catalogue/catalogue.hpp"

#include <cmath>
#include <utility>

#include "trireme/base/sizes.hpp"

namespace trireme::catalogue {
namespace {

constexpr int kReplicated = -1;

// Collects parameters under a common prefix.
class Builder {
  public:
    Builder(const ModelConfig& config, int tensor_size)
        : config_(config),
          residual_std_(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers))),
          padded_vocabulary_(padded_vocabulary(config, tensor_size)) {}

    std::vector<Parameter> build(std::span<const topology::Interval> layers) {
        const bool tied = config_.output_layer == OutputLayer::tied;
        vocabulary_matrix("embedding.word.weight", tied ? Owner::tied : Owner::embedding);
        if (config_.positions == Positions::learned)
            matrix("embedding.position.weight", Owner::embedding, {config_.max_positions, config_.hidden},
                   kReplicated, config_.init_std);
        for (const topology::Interval& run : layers)
            for (std::int64_t layer = run.begin; layer < run.end; ++layer)
                add_layer(layer);
        norm("final_norm", Owner::head);
        if (!tied)
            vocabulary_matrix("output.weight", Owner::head);
        return std::move(parameters_);
    }

  private:
    void add_layer(std::int64_t number) {
        const std::size_t first = parameters_.size();
        norm("attention_norm", Owner::layer);
        attention();
        norm("mlp_norm", Owner::layer);
        mlp();
        for (std::size_t i = first; i < parameters_.size(); ++i) {
            Parameter& parameter = parameters_[i];
            parameter.layer = number;
            parameter.kind = concat("layers.", parameter.name);
            parameter.name = concat("layers.", number, ".", parameter.name);
            parameter.pack = concat("layers.", number, ".", parameter.pack);
        }
    }

    void attention() {
        const std::int64_t hidden = config_.hidden, head_dim = config_.head_dim;
        const std::pair<const char*, std::int64_t> projections[] = {
            {"query", config_.heads}, {"key", config_.groups}, {"value", config_.groups}};
        for (const auto& [what, heads] : projections) {
            matrix(concat("attention.", what, ".weight"), Owner::layer, {heads, head_dim, hidden}, 0,
                   config_.init_std);
            parameters_.back().pack = "attention.query_key_value.weight";
        }
        if (config_.biases != Biases::none)
            for (const auto& [what, heads] : projections) {
                vector(concat("attention.", what, ".bias"), Owner::layer, {heads, head_dim}, 0,
                       Initialisation::zeros);
                parameters_.back().pack = "attention.query_key_value.bias";
            }
        matrix("attention.projection.weight", Owner::layer, {hidden, config_.heads, head_dim}, 1,
               residual_std_);
        bias("attention.projection.bias", hidden, kReplicated);
    }

    void mlp() {
        const std::int64_t hidden = config_.hidden, ffn = config_.ffn;
        const bool gated = config_.activation == Activation::swiglu;
        const auto packed = [&](const std::string& suffix) {
            if (gated)
                parameters_.back().pack = "mlp.gate_up." + suffix;
        };
        for (const char* what : {"mlp.gate", "mlp.up"}) {
            if (!gated && what == std::string("mlp.gate"))
                continue;
            matrix(concat(what, ".weight"), Owner::layer, {ffn, hidden}, 0, config_.init_std);
            packed("weight");
        }
        if (config_.biases == Biases::all)
            for (const char* what : {"mlp.gate", "mlp.up"}) {
                if (!gated && what == std::string("mlp.gate"))
                    continue;
                bias(concat(what, ".bias"), ffn, 0);
                packed("bias");
            }
        matrix("mlp.down.weight", Owner::layer, {hidden, ffn}, 1, residual_std_);
        bias("mlp.down.bias", hidden, kReplicated);
    }

    void norm(const std::string& name, Owner owner) {
        vector(name + ".weight", owner, {config_.hidden}, kReplicated, Initialisation::ones);
        if (config_.normalisation == Normalisation::layer_norm)
            vector(name + ".bias", owner, {config_.hidden}, kReplicated, Initialisation::zeros);
    }

    void bias(const std::string& name, std::int64_t size, int split_axis) {
        if (config_.biases == Biases::all)
            vector(name, Owner::layer, {size}, split_axis, Initialisation::zeros);
    }

    void vocabulary_matrix(const std::string& name, Owner owner) {
        matrix(name, owner, {config_.vocabulary, config_.hidden}, 0, config_.init_std);
        parameters_.back().padded_extent = padded_vocabulary_;
    }

    void matrix(const std::string& name, Owner owner, std::vector<std::int64_t> shape, int split_axis,
                double deviation) {
        add(name, owner, std::move(shape), split_axis, Initialisation::normal);
        parameters_.back().standard_deviation = deviation;
        parameters_.back().decays = true;
    }

    void vector(const std::string& name, Owner owner, std::vector<std::int64_t> shape, int split_axis,
                Initialisation initialisation) {
        add(name, owner, std::move(shape), split_axis, initialisation);
    }

    void add(const std::string& name, Owner owner, std::vector<std::int64_t> shape, int split_axis,
             Initialisation initialisation) {
        Parameter parameter;
        parameter.name = parameter.kind = parameter.pack = name;
        parameter.owner = owner;
        parameter.shape = std::move(shape);
        parameter.split_axis = split_axis;
        parameter.initialisation = initialisation;
        parameters_.push_back(std::move(parameter));
    }

    const ModelConfig& config_;
    double residual_std_; // of projections back into the residual stream
    std::int64_t padded_vocabulary_;
    std::vector<Parameter> parameters_;
};

} // namespace

std::int64_t padded_vocabulary(const ModelConfig& config, int tensor_size) {
    return round_up(config.vocabulary, config.vocabulary_multiple * tensor_size);
}

std::int64_t Parameter::elements() const {
    return topology::Box::whole(shape).elements();
}

std::vector<Parameter> make_catalogue(const ModelConfig& config, int tensor_size) {
    const topology::Interval all{0, config.layers};
    return make_catalogue(config, tensor_size, {&all, 1});
}

std::vector<Parameter> make_catalogue(const ModelConfig& config, int tensor_size,
                                      std::span<const topology::Interval> layers) {
    return Builder(config, tensor_size).build(layers);
}

int key_value_holders(const ModelConfig& config, int tensor_size) {
    if (config.groups % tensor_size == 0)
        return 1;
    if (tensor_size % config.groups == 0)
        return tensor_size / static_cast<int>(config.groups);
    throw Error(ErrorCategory::usage,
                concat(config.groups, " query groups cannot be shared by TP ", tensor_size,
                       ": one must be a multiple of the other"),
                {"try: another --tensor-model-parallel-size or --num-query-groups"});
}

Shard shard(const Parameter& parameter, int tensor_size, int tensor_rank) {
    Shard result{topology::Box::whole(parameter.shape), Shape(parameter.shape), tensor_size, tensor_rank};
    if (parameter.split_axis < 0)
        return result;
    const auto axis = static_cast<std::size_t>(parameter.split_axis);
    const std::int64_t extent = parameter.shape[axis];
    const std::int64_t padded = parameter.padded_extent > 0 ? parameter.padded_extent : extent;
    // Fewer indices than ranks: neighbours hold the same one.
    result.holders = padded < tensor_size ? tensor_size / static_cast<int>(padded) : 1;
    result.holder = tensor_rank % result.holders;
    const int parts = tensor_size / result.holders;
    TRIREME_ASSERT(tensor_size % result.holders == 0 && padded % parts == 0, parameter.name, ": ", padded,
                   " does not divide by TP ", tensor_size);
    TRIREME_ASSERT(padded == extent || axis == 0, parameter.name, ": padding lies on axis 0 only");
    result.box.axes[axis] = topology::part(extent, padded, parts, tensor_rank / result.holders);
    std::vector<std::int64_t> local(parameter.shape);
    local[axis] = padded / parts;
    result.local = Shape(local);
    return result;
}

std::int64_t parameter_count(const ModelConfig& config) {
    std::int64_t sum = 0;
    for (const Parameter& parameter : make_catalogue(config, 1))
        sum += parameter.elements();
    return sum;
}

PartFlops part_flops_per_token(const ModelConfig& config, AttentionFlops attention) {
    const auto hidden = static_cast<double>(config.hidden);
    const auto query = static_cast<double>(config.heads * config.head_dim);
    const auto key_value = static_cast<double>(2 * config.groups * config.head_dim);
    const double mlp_matrices = config.activation == Activation::swiglu ? 3 : 2;
    const double scores = 12 * query * static_cast<double>(config.sequence);
    PartFlops flops{};
    flops.attention_scores = attention == AttentionFlops::causal ? scores / 2 : scores;
    flops.mlp = 6 * mlp_matrices * hidden * static_cast<double>(config.ffn);
    flops.layer = 6 * (hidden * (query + key_value) + query * hidden) + flops.mlp + flops.attention_scores;
    flops.embedding = 3 * hidden; // sum of both tables, and a gradient added to each
    flops.head = 6 * hidden * static_cast<double>(config.vocabulary);
    return flops;
}

double flops_per_token(const ModelConfig& config, AttentionFlops attention) {
    const PartFlops parts = part_flops_per_token(config, attention);
    return static_cast<double>(config.layers) * parts.layer + parts.head;
}

} // namespace trireme::catalogue
