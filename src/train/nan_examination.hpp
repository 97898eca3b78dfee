// --rerun-nan: was it the model or the hardware? A step whose loss or gradient was not finite changes no
// weight, so it can be repeated from the same state, twice, while each layer's outputs and gradients are
// looked at. The program gives the same bits each time:
//
//     not finite again, twice at the same place    the model, its data or its learning rate: exit code 7
//     finite, or not finite at another place       the hardware: exit code 6, to leave the node out
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/error.hpp"
#include "trireme/model/probe.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// The first thing on a rank that was not finite.
struct Flaw {
    enum class Phase : std::uint8_t { forward, loss, backward, weight_gradient } phase = Phase::forward;
    std::int64_t micro_batch = 0; // of the data rank; the last three fields as far as the phase has them
    std::int64_t layer = 0;
    std::string parameter;
    bool operator==(const Flaw&) const = default;
};
using Flaws = std::vector<std::optional<Flaw>>; // by world rank

// Repeats the step without its end and looks; all ranks get all flaws. `plant` sees each tensor before it is
// looked at. Collective over the world.
Flaws examine(Engine& engine, backend::Backend& backend, pipeline::BatchSource& batches,
              const StepSetup& step, model::Probe* plant = nullptr);

// Which ranks' own part of the loss is not finite, after a step: as a first hint where it came from.
// Collective.
std::vector<int> ranks_with_bad_loss(Engine& engine);

// The Error to end with: `bad_loss` after the first attempt, and the flaws of two examinations.
Error judge_flaws(std::int64_t iteration, const std::string& samples, const std::vector<int>& bad_loss,
                  const Flaws& first, const Flaws& second, const std::vector<std::string>& hosts);

} // namespace trireme::train
