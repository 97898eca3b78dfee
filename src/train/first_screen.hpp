// What a person sees before the first step: which rank is where, whether the cut took effect, what memory it
// takes, and how much of the data the run will see.
#pragma once

#include <optional>
#include <string>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// "trireme 0.1.0 (3f9c2e1, ...)".
std::string version_line();

// The lines layout, model and memory. Collective over the world (memory is gathered); the text is meant for
// rank 0.
std::string describe_engine(Engine& engine, comm::Runtime& runtime, const backend::Backend& backend);

// The line data: what the parts hold and how many epochs the run makes of the first.
std::string describe_data(const options::Resolved& options, const data::Dataset& dataset);

} // namespace trireme::train
