// The model files of job_templates/configs hold the published models, to the last parameter, and what tells
// their shapes apart arrives in the engine's setup.
#include <gtest/gtest.h>

#include <filesystem>

#include "train/configure.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {
namespace {

using catalogue::ModelConfig;

constexpr const char* kDirectory = "job_templates/configs/"; // tests run in the root of the source tree

EngineSetup setup_of(std::vector<std::string> arguments, std::int64_t vocabulary, std::int64_t ranks) {
    for (const char* given :
         {"--tokenizer-type", "NullTokenizer", "--vocab-size", "9", "--data-path", "corpus"})
        arguments.emplace_back(given);
    const options::Resolved resolved =
        options::resolve(options::parse(options::Command::pretrain, arguments), {.ranks = ranks});
    return engine_setup(resolved, vocabulary, Purpose::train);
}

// A file holds a whole run but for data, tokenizer and the directory of the run, so these are all that is
// added.
EngineSetup file_setup(const std::string& file, std::int64_t vocabulary, std::int64_t ranks) {
    return setup_of({"--config", kDirectory + file, "--save", "run"}, vocabulary, ranks);
}

struct Published {
    const char* file;
    std::int64_t vocabulary;
    std::int64_t parameters;
    std::int64_t gpus; // on which its head comment says that it runs
};

// GPT-2: every count of the released weights. Llama and Qwen: the element counts of the released safetensors.
// GPT-3's weights are not public; 174,600M is table D.1 of Brown et al. 2020, and the last digits are those
// of V h + s h + l (12 h^2 + 13 h) + 2 h with V 50257, s 2048, l 96, h 12288. The 7B is that formula with l
// 32, h 4096. 1.3B and 13B: the released OPT models of these widths have 34,816 and 87,040 more, for 15 more
// words and 2 more positions.
constexpr Published kPublished[] = {
    {"gpt2-124m.cfg", 50257, 124'439'808, 8},       {"gpt-1.3b.cfg", 50257, 1'315'758'080 - 34'816, 8},
    {"gpt-7b.cfg", 50257, 6'658'404'352, 8},        {"gpt-13b.cfg", 50257, 12'853'473'280 - 87'040, 32},
    {"gpt3-175b.cfg", 50257, 174'604'259'328, 128}, {"llama2-7b.cfg", 32000, 6'738'415'616, 32},
    {"llama3-8b.cfg", 128256, 8'030'261'248, 32},   {"llama3-70b.cfg", 128256, 70'553'706'496, 64},
    {"qwen2.5-1.5b.cfg", 151936, 1'543'714'304, 8}, {"qwen2.5-7b.cfg", 152064, 7'615'616'512, 32},
};

ModelConfig model_of(const std::string& file) {
    for (const Published& published : kPublished)
        if (published.file == file)
            return file_setup(file, published.vocabulary, published.gpus).model;
    ADD_FAILURE() << file;
    return {};
}

TEST(ModelFiles, HoldThePublishedParameters) {
    for (const Published& published : kPublished) {
        SCOPED_TRACE(published.file);
        EXPECT_EQ(catalogue::parameter_count(model_of(published.file)), published.parameters);
        const std::string text = read_file(concat(kDirectory, published.file), ErrorCategory::data);
        EXPECT_NE(text.find(concat("\n# ", published.gpus, " GPUs")), std::string::npos);
        EXPECT_NE(text.find(concat("\n# Budget: ", published.gpus, " x ")), std::string::npos);
        EXPECT_NE(text.find(concat("sbatch -N", published.gpus / 8, " pretrain.sbatch ",
                                   std::filesystem::path(published.file).stem().string(), " --data-path")),
                  std::string::npos);
    }
}

TEST(ModelFiles, AreAllChecked) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kDirectory))
        files += entry.path().extension() == ".cfg" ? 1 : 0;
    EXPECT_EQ(files, std::size(kPublished));
}

TEST(ModelFiles, WhatHoldsNoParameters) { // from the models' config.json
    const ModelConfig llama2 = model_of("llama2-7b.cfg");
    EXPECT_EQ(llama2.rotary.base, 10000.0);
    EXPECT_EQ(llama2.norm_epsilon, 1e-5);
    const ModelConfig llama3 = model_of("llama3-8b.cfg");
    EXPECT_EQ(llama3.rotary.base, 500000.0);
    EXPECT_EQ(llama3.rotary.percent, 1.0);
    EXPECT_FALSE(llama3.rotary.scaling);
    EXPECT_EQ(llama3.norm_epsilon, 1e-5);
    EXPECT_EQ(llama3.max_positions, 8192);
    EXPECT_EQ(llama3.hidden_dropout, 0.0);
    EXPECT_EQ(llama3.attention_dropout, 0.0);
    for (const char* file : {"qwen2.5-1.5b.cfg", "qwen2.5-7b.cfg"}) {
        const ModelConfig qwen = model_of(file);
        EXPECT_EQ(qwen.head_dim, 128);
        EXPECT_EQ(qwen.rotary.base, 1e6);
        EXPECT_EQ(qwen.norm_epsilon, 1e-6);
        EXPECT_EQ(qwen.max_positions, 131072);
        EXPECT_EQ(qwen.biases, catalogue::Biases::query_key_value);
    }
}

TEST(ModelFiles, TheSevenBillionRunOnEightRanks) {
    const EngineSetup setup = file_setup("gpt-7b.cfg", 50257, 8);
    EXPECT_EQ(setup.grid.tensor, 4);
    EXPECT_EQ(setup.grid.pipeline, 2);
    EXPECT_EQ(setup.grid.data, 1);
    EXPECT_EQ(setup.global_batch, 16);
}

TEST(EngineSetup, TakesTheShape) {
    const std::vector<std::string> shape{"--num-layers",
                                         "2",
                                         "--hidden-size",
                                         "48",
                                         "--num-attention-heads",
                                         "4",
                                         "--seq-length",
                                         "16",
                                         "--max-position-embeddings",
                                         "32",
                                         "--micro-batch-size",
                                         "1",
                                         "--train-iters",
                                         "10",
                                         "--lr",
                                         "0.001"};
    const auto setup = [&](std::vector<std::string> more) {
        more.insert(more.begin(), shape.begin(), shape.end());
        return setup_of(more, 10, 1);
    };
    const EngineSetup plain = setup({});
    EXPECT_EQ(plain.type, DType::f32);
    EXPECT_EQ(plain.model.positions, catalogue::Positions::learned);
    EXPECT_EQ(plain.model.normalisation, catalogue::Normalisation::layer_norm);
    EXPECT_EQ(plain.model.activation, catalogue::Activation::gelu);
    EXPECT_EQ(plain.model.output_layer, catalogue::OutputLayer::tied);
    EXPECT_EQ(plain.model.biases, catalogue::Biases::all);
    EXPECT_EQ(plain.model.norm_epsilon, 1e-5);
    EXPECT_EQ(plain.model.groups, 4);
    EXPECT_EQ(plain.model.ffn, 192);
    const EngineSetup other = setup({"--bf16",
                                     "--position-embedding-type",
                                     "rope",
                                     "--rotary-base",
                                     "500",
                                     "--rotary-percent",
                                     "0.5",
                                     "--use-rope-scaling",
                                     "--rope-scaling-factor",
                                     "4",
                                     "--normalization",
                                     "RMSNorm",
                                     "--norm-epsilon",
                                     "0.5",
                                     "--swiglu",
                                     "--group-query-attention",
                                     "--num-query-groups",
                                     "2",
                                     "--untie-embeddings-and-output-weights",
                                     "--disable-bias-linear"});
    EXPECT_EQ(other.type, DType::bf16);
    EXPECT_EQ(other.model.positions, catalogue::Positions::rotary);
    EXPECT_EQ(other.model.rotary.base, 500.0);
    EXPECT_EQ(other.model.rotary.percent, 0.5);
    ASSERT_TRUE(other.model.rotary.scaling);
    EXPECT_EQ(other.model.rotary.scaling->factor, 4.0);
    EXPECT_EQ(other.model.rotary.scaling->original_positions, 8192);
    EXPECT_EQ(other.model.normalisation, catalogue::Normalisation::rms_norm);
    EXPECT_EQ(other.model.norm_epsilon, 0.5);
    EXPECT_EQ(other.model.activation, catalogue::Activation::swiglu);
    EXPECT_EQ(other.model.output_layer, catalogue::OutputLayer::own);
    EXPECT_EQ(other.model.biases, catalogue::Biases::none);
    EXPECT_EQ(other.model.groups, 2);
    EXPECT_EQ(other.model.ffn, 128);
    EXPECT_EQ(setup({"--position-embedding-type", "none"}).model.positions, catalogue::Positions::none);
    EXPECT_EQ(setup({"--disable-bias-linear", "--add-qkv-bias"}).model.biases,
              catalogue::Biases::query_key_value);
    EXPECT_EQ(setup({"--add-qkv-bias"}).model.biases, catalogue::Biases::all);
}

} // namespace
} // namespace trireme::train
