// Training runs that others have published, with what is known of their conditions, and our own: what the
// cost model is held against. Nothing of others' goes into the model.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/cost.hpp"

namespace trireme::test {

struct PublishedRun {
    std::string name; // "145.6B"
    plan::RunSetup setup;
    double tflops = 0; // a GPU, in the publication's convention
};

// Table 1 of Narayanan et al. 2021 ("Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM"): A100 80 GB, sequence 2048, fp16, every layer recomputed, scatter and gather of transfers,
// attention before FlashAttention. Micro-batches and layers a chunk are those of the paper's scripts.
std::vector<PublishedRun> narayanan_2021();
plan::Software software_of_2021();
// F = 96 B s l h^2 (1 + s / 6 h + V / 16 l h): recomputation and all of attention counted; a step.
double paper_flops(const plan::RunSetup& setup);

// The table of Megatron-LM's README of 2024 (core 0.8): DGX H100, bf16, sequence 4096, DP 48, all
// overlapping switched on, FLOPs with attention in full. Micro-batches and chunks are not published: the best
// that fits memory, as predicted, stands for them.
std::vector<PublishedRun> megatron_h100();
plan::Software software_of_2024();

// Ours, as docs/performance.md has them: one and two H200s, bf16, no dropout, causal half of attention
// counted. The rates of the preset "h200" come from these runs and from single operations.
std::vector<PublishedRun> own_h200();

// The run as predicted, and its TFLOP/s a GPU in its publication's convention.
struct Comparison {
    PublishedRun run; // with what was chosen for it
    plan::Prediction prediction;
    double tflops = 0;
    double error() const { return tflops / run.tflops - 1; }
};
std::vector<Comparison> compare_narayanan_2021();
std::vector<Comparison> compare_megatron_h100();
std::vector<Comparison> compare_own_h200();

} // namespace trireme::test
