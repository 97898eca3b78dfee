// config.json: models as their makers publish them, what is written reads back, and what cannot be done is
// refused by name.
#include "checkpoint/hf_config.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace trireme::checkpoint {
namespace {

class HfConfigFile : public testing::Test {
  protected:
    HfConfigFile() {
        std::string name = (std::filesystem::temp_directory_path() / "trireme-config-XXXXXX").string();
        directory_ = mkdtemp(name.data());
    }
    ~HfConfigFile() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    HfConfig read(const std::string& text) const {
        std::ofstream(directory_ / "config.json") << text;
        return read_hf_config(directory_ / "config.json");
    }
    std::string refusal(const std::string& text) const {
        try {
            read(text);
            return "no error";
        } catch (const Error& error) {
            EXPECT_EQ(error.category(), ErrorCategory::checkpoint);
            return error.message();
        }
    }

    std::filesystem::path directory_;
};

// The keys of published models (meta-llama/Llama-3.1-8B, Qwen/Qwen2.5-0.5B, openai-community/gpt2) that
// matter.
constexpr const char* kLlama31 = R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "hidden_act": "silu", "max_position_embeddings": 131072, "initializer_range": 0.02, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"}})";
constexpr const char* kQwen = R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
  "hidden_act": "silu", "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": 24, "tie_word_embeddings": true})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1,
  "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
  "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257})";

std::string with(std::string text, const std::string& member) {
    return text.insert(1, member + ", ");
}

TEST_F(HfConfigFile, PublishedModels) {
    const HfConfig llama = read(kLlama31);
    EXPECT_EQ(llama.family, HfFamily::llama);
    EXPECT_EQ(catalogue::parameter_count(llama.model), 8'030'261'248) << "as its card says: 8.03 B";
    EXPECT_EQ(llama.model.rotary.base, 500000);
    ASSERT_TRUE(llama.model.rotary.scaling.has_value());
    EXPECT_EQ(llama.model.rotary.scaling->factor, 8);
    const HfConfig qwen = read(kQwen);
    EXPECT_EQ(qwen.family, HfFamily::qwen2);
    EXPECT_EQ(catalogue::parameter_count(qwen.model), 494'032'768) << "0.49 B";
    EXPECT_EQ(qwen.model.norm_epsilon, 1e-6);
    EXPECT_EQ(qwen.model.biases, catalogue::Biases::query_key_value);
    EXPECT_FALSE(qwen.model.rotary.scaling.has_value());
    const HfConfig gpt2 = read(kGpt2);
    EXPECT_EQ(gpt2.family, HfFamily::gpt2);
    EXPECT_EQ(catalogue::parameter_count(gpt2.model), 124'439'808) << "124 M";
    EXPECT_EQ(gpt2.model.output_layer, catalogue::OutputLayer::tied);
}

TEST_F(HfConfigFile, Version5KeepsRopeTogether) {
    const HfConfig config =
        read(R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 4,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 777.0, "factor": 32.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
    EXPECT_EQ(config.model.rotary.base, 777);
    EXPECT_EQ(config.model.rotary.scaling->factor, 32);
    EXPECT_EQ(config.model.groups, 2);
    EXPECT_EQ(config.model.head_dim, 4);
}

TEST_F(HfConfigFile, WhatIsWrittenReadsBack) {
    for (const char* text : {kLlama31, kQwen, kGpt2}) {
        const HfConfig first = read(text);
        const std::string written = hf_config_text(first.family, first.model, storage::FloatType::bf16, 5);
        const HfConfig again = read(written);
        EXPECT_EQ(again.family, first.family);
        EXPECT_EQ(family_of(first.model), first.family);
        EXPECT_EQ(hf_config_text(again.family, again.model, storage::FloatType::bf16, 5), written);
        EXPECT_EQ(catalogue::parameter_count(again.model), catalogue::parameter_count(first.model));
        EXPECT_NE(written.find("\"torch_dtype\": \"bfloat16\""), std::string::npos);
        EXPECT_NE(written.find("\"eos_token_id\": 5"), std::string::npos);
    }
}

TEST_F(HfConfigFile, WhatCannotBeDoneIsRefusedByName) {
    EXPECT_NE(refusal("{\"model_type\": \"mamba\"}").find("the architecture mamba cannot be imported"),
              std::string::npos);
    EXPECT_NE(refusal("{\"model_type\": \"mamba\"}").find("gpt2, llama, qwen2"), std::string::npos);
    EXPECT_NE(refusal("{}").find("(no model_type)"), std::string::npos);
    EXPECT_NE(refusal("[]").find("one object is needed"), std::string::npos);
    EXPECT_NE(refusal("{").find("not JSON"), std::string::npos);
    EXPECT_NE(refusal("{\"model_type\": \"gpt2\"}").find("n_layer is missing"), std::string::npos);
    EXPECT_NE(refusal(with(kQwen, "\"quantization_config\": {}")).find("quantized"), std::string::npos);
    const auto changed = [](std::string text, const std::string& from, const std::string& to) {
        text.replace(text.find(from), from.size(), to);
        return text;
    };
    EXPECT_NE(refusal(changed(kGpt2, "\"gelu_new\"", "\"relu\"")).find("activation_function relu"),
              std::string::npos);
    EXPECT_NE(refusal(changed(kGpt2, "768", "-1")).find("n_embd is no whole number"), std::string::npos);
    EXPECT_NE(refusal(changed(kGpt2, "768", "770")).find("n_embd is no multiple of n_head"),
              std::string::npos);
    EXPECT_NE(refusal(changed(kQwen, "\"use_sliding_window\": false", "\"use_sliding_window\": true"))
                  .find("use_sliding_window"),
              std::string::npos);
    EXPECT_NE(refusal(changed(kLlama31, "\"mlp_bias\": false", "\"mlp_bias\": true"))
                  .find("attention_bias and mlp_bias"),
              std::string::npos);
    EXPECT_NE(refusal(changed(kLlama31, "\"llama3\"", "\"yarn\"")).find("type yarn"), std::string::npos);
    EXPECT_NE(refusal(changed(kLlama31, "8192", "4096")).find("other limits than Llama 3's"),
              std::string::npos);
    EXPECT_NE(refusal(changed(kLlama31, "500000.0", "500000.5")).find("rope_theta"), std::string::npos);
}

TEST(HfFamilies, OtherShapesAreRefused) {
    catalogue::ModelConfig model;
    model.layers = 1;
    model.hidden = 8;
    model.heads = model.groups = 2;
    model.head_dim = 4;
    EXPECT_EQ(family_of(model), HfFamily::gpt2);
    model.activation = catalogue::Activation::swiglu;
    EXPECT_THROW(family_of(model), Error);
    model.normalisation = catalogue::Normalisation::rms_norm;
    model.positions = catalogue::Positions::rotary;
    EXPECT_EQ(family_of(model), HfFamily::llama);
    model.biases = catalogue::Biases::query_key_value;
    EXPECT_EQ(family_of(model), HfFamily::qwen2);
    model.rotary.percent = 0.5;
    EXPECT_THROW(family_of(model), Error);
}

} // namespace
} // namespace trireme::checkpoint
