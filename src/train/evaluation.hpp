// The mean loss over part of a split: what evaluation during training and `trireme evaluate` have in common.
#pragma once

#include <functional>
#include <optional>

#include "trireme/data/dataset.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// Asked before each global batch with the share of the evaluation that is still to come; true, on all ranks:
// leave it.
using LeavesEvaluation = std::function<bool(double rest)>;

// Over --eval-iters global batches from sample `first_sample` on; progress on a terminal of rank 0. Nothing
// if it was left before its end. Collective over the world.
std::optional<double> mean_loss(Engine& engine, const data::Dataset& dataset, data::Split split,
                                std::int64_t first_sample, const options::Resolved& options,
                                const LeavesEvaluation& leaves = {});

} // namespace trireme::train
