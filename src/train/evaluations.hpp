// The evaluations of a run: when, on which samples, and what becomes of one for which no time is left.
#pragma once

#include <cstdint>
#include <string>

#include "expected_times.hpp"
#include "stop.hpp"
#include "training_log.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

class Evaluations {
  public:
    // All of it is used and must outlive this: `times` for what is left of one that has begun, and told what
    // each took; `log` is told the losses.
    Evaluations(const options::Resolved& options, comm::Runtime& runtime, Engine& engine,
                const data::Dataset& dataset, StopRequests& requests, ExpectedTimes& times, TrainingLog& log);

    bool is_due(std::int64_t iteration) const;
    // Of the validation part. Collective over the world, like at_the_end().
    void after_step(const Progress& progress);
    // Of the validation part, unless this run has had one at this iteration, and of the test part. False:
    // left out for want of time; it is for the next attempt to make up for.
    bool at_the_end(const Progress& progress);

  private:
    bool validate(const std::string& where, const Progress& progress);
    bool evaluate(data::Split split, std::int64_t first_sample, const std::string& where,
                  const Progress& progress);

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    Engine& engine_;
    const data::Dataset& dataset_;
    StopRequests& requests_;
    ExpectedTimes& times_;
    TrainingLog& log_;
    bool wanted_;
    std::int64_t validated_at_ = -1; // iteration
};

} // namespace trireme::train
