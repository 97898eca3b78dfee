// What one rank makes of a command line, and how far a rank of another layout is from it.
#pragma once

#include <string>
#include <vector>

#include "support/omitting.hpp"
#include "trireme/optimizer/rate_schedule.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::test {

// A run from its command line, over synthetic batches.
struct TrainingRun {
    options::Resolved options;
    train::EngineSetup setup;
    optimizer::RateSchedule rates;

    // Throws Error (usage) if the options do not go together.
    TrainingRun(const std::string& line, int ranks);
    // Of all its steps. omitting: told where each step starts.
    std::vector<double> losses(train::Engine& engine, Omitting* omitting = nullptr) const;
};

// What one rank has at the end: losses, then all parameters in the order of the catalogue. A plain row of
// numbers, as it goes from the rank that trained it to all. In fp64.
using Numbers = std::vector<double>;
Numbers train_alone(const std::string& line);
// The same of an engine that has trained alone.
Numbers numbers_of(std::vector<double> losses, train::Engine& engine);

// Differences in units of the largest value of their kind.
struct Deviation {
    double losses = 0, parameters = 0;
    std::string where; // the parameter that differs most
    bool within(double bound) const { return losses <= bound && parameters <= bound; }
};
// Of all that any rank of the layout holds, copies included; the same on all. Infinite if some element has no
// rank that owns it. A reference that ends after its losses is compared with losses alone. Collective over
// `ranks`.
Deviation compare(comm::HostGroup& ranks, const std::vector<double>& losses, train::Engine& engine,
                  const Numbers& reference);

// most = max(most, value), and infinity once a value is NaN.
void raise(double& most, double value);

} // namespace trireme::test
