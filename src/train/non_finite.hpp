// What a run ends with at a step whose loss or gradient is not finite.
#pragma once

#include "progress.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// The last step, which `progress` has counted.
struct NonFiniteStep {
    const StepReport& report;
    const StepSetup& setup;
    const Progress& progress;
};

// With --rerun-nan and a step that has changed no weight, what repeating it shows (nan_examination.hpp).
// Collective over the world; the same Error on all ranks.
Error non_finite_error(const NonFiniteStep& step, const options::Resolved& options, comm::Runtime& runtime,
                       Engine& engine, backend::Backend& backend, const data::Dataset& dataset);

} // namespace trireme::train
