// A model's shape becomes options and comes back: what an imported model keeps is what it is.
#include "trireme/train/model_config.hpp"

#include <gtest/gtest.h>

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/options/checkpoint_tool.hpp"

namespace trireme::train {
namespace {

using namespace catalogue;

// Everything that a model is computed by, as text.
std::string all_of(const ModelConfig& config) {
    std::string text =
        concat(config.layers, " ", config.hidden, " ", config.heads, " ", config.groups, " ", config.head_dim,
               " ", config.ffn, " ", config.vocabulary, " ", config.max_positions, " ", config.sequence, " ",
               static_cast<int>(config.positions), static_cast<int>(config.normalisation),
               static_cast<int>(config.activation), static_cast<int>(config.output_layer),
               static_cast<int>(config.biases), " ", config.norm_epsilon, " ", config.init_std, " ",
               config.hidden_dropout, " ", config.attention_dropout);
    if (config.positions == Positions::rotary) {
        text += concat(" rope ", config.rotary.base, " ", config.rotary.percent);
        if (config.rotary.scaling)
            text += concat(" scaled ", config.rotary.scaling->factor);
    }
    for (const Parameter& parameter : make_catalogue(config, 1))
        text += concat("\n", parameter.name, " ", Shape(parameter.shape).text());
    return text;
}

TEST(ModelOptions, EveryShapeComesBack) {
    int shapes = 0;
    for (const Positions positions : {Positions::learned, Positions::rotary, Positions::none})
        for (const Normalisation norm : {Normalisation::layer_norm, Normalisation::rms_norm})
            for (const Activation activation : {Activation::gelu, Activation::swiglu})
                for (const OutputLayer output : {OutputLayer::tied, OutputLayer::own})
                    for (const Biases biases : {Biases::all, Biases::query_key_value, Biases::none})
                        for (const std::int64_t groups : {6, 2, 1}) {
                            ModelConfig config;
                            config.layers = 2;
                            config.hidden = 20;
                            config.heads = 6;
                            config.groups = groups;
                            config.head_dim = 8;
                            config.ffn = 44;
                            config.vocabulary = 77;
                            config.max_positions = 64;
                            config.sequence = 32;
                            config.positions = positions;
                            config.normalisation = norm;
                            config.activation = activation;
                            config.output_layer = output;
                            config.biases = biases;
                            config.norm_epsilon = 1e-6;
                            config.init_std = 0.03;
                            config.hidden_dropout = 0;
                            config.attention_dropout = 0.25;
                            config.rotary.base = 500000;
                            config.rotary.percent = groups == 1 ? 0.5 : 1;
                            if (groups == 2)
                                config.rotary.scaling = RotaryScaling{.factor = 32};
                            const std::string options = options::to_config(model_values(config, DType::bf16),
                                                                           {}, options::Kept::model);
                            const options::Resolved::Model read = options::model_in({options, "x"});
                            EXPECT_EQ(read.params_dtype, options::ParamsDtype::bf16);
                            EXPECT_EQ(all_of(model_config(read, 77)), all_of(config)) << options;
                            ++shapes;
                        }
    EXPECT_EQ(shapes, 216);
}

} // namespace
} // namespace trireme::train
