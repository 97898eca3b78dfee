// Our tensors and those of transformers, element by element, on ramps: every element of a file's tensor is
// asked for by the index of transformers' own layout, written down here once more from its documentation.
#include "checkpoint/hf_tensors.hpp"

#include <gtest/gtest.h>
#include <map>

#include "checkpoint/hf_parts.hpp"

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t H = 3, G = 1, D = 2, C = 5, F = 7, V = 11, P = 4;

catalogue::ModelConfig gpt2() {
    catalogue::ModelConfig config;
    config.layers = 2;
    config.hidden = H * D;
    config.heads = config.groups = H;
    config.head_dim = D;
    config.ffn = F;
    config.vocabulary = V;
    config.max_positions = P;
    return config;
}

catalogue::ModelConfig llama() {
    catalogue::ModelConfig config = gpt2();
    config.hidden = C;
    config.groups = G;
    config.positions = catalogue::Positions::rotary;
    config.normalisation = catalogue::Normalisation::rms_norm;
    config.activation = catalogue::Activation::swiglu;
    config.output_layer = catalogue::OutputLayer::own;
    config.biases = catalogue::Biases::query_key_value;
    return config;
}

// Element e of parameter number n of the catalogue.
double value_of(std::size_t n, std::int64_t e) {
    return static_cast<double>(n * 1'000'000) + static_cast<double>(e);
}

std::map<std::string, std::size_t> numbers_of(const catalogue::ModelConfig& config) {
    std::map<std::string, std::size_t> numbers;
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(config, 1))
        numbers.emplace(parameter.name, numbers.size());
    return numbers;
}

// The elements of a box of a ramp, in its order.
std::vector<double> box_values(const catalogue::Parameter& parameter, std::size_t number,
                               const topology::Box& box) {
    std::vector<double> values;
    for (std::int64_t e = 0; e < parameter.elements(); ++e) {
        std::int64_t rest = e;
        bool inside = true;
        for (std::size_t axis = parameter.shape.size(); axis-- > 0;) {
            const std::int64_t at = rest % parameter.shape[axis];
            inside = inside && box.axes[axis].begin <= at && at < box.axes[axis].end;
            rest /= parameter.shape[axis];
        }
        if (inside)
            values.push_back(value_of(number, e));
    }
    return values;
}

// Every tensor as the file has it, put together from pieces of at most `limit` elements.
std::map<std::string, std::vector<double>> tensors_of(HfFamily family, const catalogue::ModelConfig& config,
                                                      std::int64_t limit) {
    const std::map<std::string, std::size_t> numbers = numbers_of(config);
    std::map<std::string, std::vector<double>> result;
    for (const HfTensor& tensor : hf_tensors(family, config)) {
        std::vector<double>& all = result[tensor.name];
        for_each_run(tensor, limit, [&](const topology::Interval& run, std::span<const SourcePart> parts) {
            EXPECT_EQ(run.begin, static_cast<std::int64_t>(all.size())) << tensor.name;
            std::vector<double> piece(static_cast<std::size_t>(run.size()), -1);
            for (const SourcePart& part : parts) {
                std::vector<double> packed =
                    box_values(*part.source, numbers.at(part.source->name), part.box);
                place(part, std::as_writable_bytes(std::span(packed)),
                      std::as_writable_bytes(std::span(piece)), sizeof(double), Direction::into_piece);
                std::vector<double> back(packed.size(), -1);
                place(part, std::as_writable_bytes(std::span(back)), std::as_writable_bytes(std::span(piece)),
                      sizeof(double), Direction::out_of_piece);
                EXPECT_EQ(back, packed) << tensor.name;
            }
            all.insert(all.end(), piece.begin(), piece.end());
        });
        EXPECT_EQ(static_cast<std::int64_t>(all.size()), tensor.elements());
    }
    return result;
}

TEST(HfTensors, Gpt2) {
    const catalogue::ModelConfig config = gpt2();
    const std::map<std::string, std::size_t> number = numbers_of(config);
    constexpr std::int64_t hidden = H * D;
    for (const std::int64_t limit : {1, 20, 50, 1000000}) {
        const auto tensors = tensors_of(HfFamily::gpt2, config, limit);
        EXPECT_EQ(tensors.size(), 2U + 2 * 12 + 2);
        // c_attn.weight [in, 3 H D]: column x H D + h D + d is output d of head h of query, key, value.
        const std::vector<double>& fused = tensors.at("transformer.h.1.attn.c_attn.weight");
        const std::vector<double>& bias = tensors.at("transformer.h.1.attn.c_attn.bias");
        const char* const what[] = {"query", "key", "value"};
        for (std::int64_t x = 0; x < 3; ++x)
            for (std::int64_t o = 0; o < H * D; ++o) {
                const std::string name = concat("layers.1.attention.", what[x]);
                EXPECT_EQ(bias[static_cast<std::size_t>(x * H * D + o)],
                          value_of(number.at(name + ".bias"), o));
                for (std::int64_t i = 0; i < hidden; ++i)
                    ASSERT_EQ(fused[static_cast<std::size_t>(i * 3 * H * D + x * H * D + o)],
                              value_of(number.at(name + ".weight"), o * hidden + i));
            }
        const auto expect_transposed = [&](const std::string& theirs, const std::string& ours,
                                           std::int64_t out, std::int64_t in) {
            const std::vector<double>& values = tensors.at(theirs);
            ASSERT_EQ(static_cast<std::int64_t>(values.size()), in * out);
            for (std::int64_t i = 0; i < in; ++i)
                for (std::int64_t o = 0; o < out; ++o)
                    ASSERT_EQ(values[static_cast<std::size_t>(i * out + o)],
                              value_of(number.at(ours), o * in + i))
                        << theirs;
        };
        expect_transposed("transformer.h.0.attn.c_proj.weight", "layers.0.attention.projection.weight",
                          hidden, H * D);
        expect_transposed("transformer.h.0.mlp.c_fc.weight", "layers.0.mlp.up.weight", F, hidden);
        expect_transposed("transformer.h.1.mlp.c_proj.weight", "layers.1.mlp.down.weight", hidden, F);
        EXPECT_EQ(tensors.at("transformer.wte.weight")[V * hidden - 1],
                  value_of(number.at("embedding.word.weight"), V * hidden - 1));
        EXPECT_EQ(tensors.at("transformer.wpe.weight")[1],
                  value_of(number.at("embedding.position.weight"), 1));
        EXPECT_EQ(tensors.at("transformer.h.1.ln_2.bias")[2],
                  value_of(number.at("layers.1.mlp_norm.bias"), 2));
        EXPECT_EQ(tensors.at("transformer.ln_f.weight")[0], value_of(number.at("final_norm.weight"), 0));
        EXPECT_FALSE(tensors.contains("lm_head.weight")) << "tied";
    }
}

TEST(HfTensors, QwenNamesAndShapes) {
    const catalogue::ModelConfig config = llama();
    const std::map<std::string, std::size_t> number = numbers_of(config);
    using Shape = std::vector<std::int64_t>;
    std::map<std::string, Shape> shapes;
    for (const HfTensor& tensor : hf_tensors(HfFamily::qwen2, config))
        shapes[tensor.name] = tensor.shape;
    const std::string layer = "model.layers.1.";
    EXPECT_EQ(shapes.size(), 1U + 2 * 12 + 2);
    EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (Shape{V, C}));
    EXPECT_EQ(shapes.at(layer + "self_attn.q_proj.weight"), (Shape{H * D, C}));
    EXPECT_EQ(shapes.at(layer + "self_attn.k_proj.weight"), (Shape{G * D, C}));
    EXPECT_EQ(shapes.at(layer + "self_attn.v_proj.bias"), (Shape{G * D}));
    EXPECT_EQ(shapes.at(layer + "self_attn.o_proj.weight"), (Shape{C, H * D}));
    EXPECT_EQ(shapes.at(layer + "mlp.gate_proj.weight"), (Shape{F, C}));
    EXPECT_EQ(shapes.at(layer + "mlp.down_proj.weight"), (Shape{C, F}));
    EXPECT_EQ(shapes.at(layer + "input_layernorm.weight"), (Shape{C}));
    EXPECT_EQ(shapes.at(layer + "post_attention_layernorm.weight"), (Shape{C}));
    EXPECT_EQ(shapes.at("model.norm.weight"), (Shape{C}));
    EXPECT_EQ(shapes.at("lm_head.weight"), (Shape{V, C}));
    const std::map<std::string, std::string> same_order{
        {"self_attn.q_proj.weight", "attention.query.weight"},
        {"self_attn.o_proj.weight", "attention.projection.weight"},
        {"mlp.gate_proj.weight", "mlp.gate.weight"},
        {"mlp.up_proj.weight", "mlp.up.weight"},
        {"mlp.down_proj.weight", "mlp.down.weight"},
        {"post_attention_layernorm.weight", "mlp_norm.weight"}};
    for (const std::int64_t limit : {1, 7, 1000000}) {
        const auto tensors = tensors_of(HfFamily::qwen2, config, limit);
        for (const auto& [theirs, ours] : same_order) {
            const std::vector<double>& values = tensors.at(layer + theirs);
            for (std::size_t e = 0; e < values.size(); ++e)
                ASSERT_EQ(values[e], value_of(number.at("layers.1." + ours), static_cast<std::int64_t>(e)))
                    << theirs;
        }
    }
}

TEST(HfTensors, BuffersOfOlderFiles) {
    EXPECT_TRUE(is_buffer(HfFamily::gpt2, "h.0.attn.bias"));
    EXPECT_TRUE(is_buffer(HfFamily::gpt2, "transformer.h.11.attn.masked_bias"));
    EXPECT_FALSE(is_buffer(HfFamily::gpt2, "h.0.attn.c_attn.bias"));
    EXPECT_TRUE(is_buffer(HfFamily::llama, "model.layers.0.self_attn.rotary_emb.inv_freq"));
    EXPECT_FALSE(is_buffer(HfFamily::qwen2, "model.layers.0.self_attn.q_proj.bias"));
}

} // namespace
} // namespace trireme::checkpoint
