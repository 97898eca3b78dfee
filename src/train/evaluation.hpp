// The mean loss over part of a split: what evaluation during training and `trireme evaluate` have in common.
#pragma once

#include "trireme/data/dataset.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// Over --eval-iters global batches from sample `first_sample` on; progress on a terminal of rank 0.
// Collective over the world.
double mean_loss(Engine& engine, const data::Dataset& dataset, data::Split split, std::int64_t first_sample,
                 const options::Resolved& options);

} // namespace trireme::train
