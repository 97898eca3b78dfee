// The global batch of a step as a function of the samples consumed before it: constant, raised in equal
// steps, or as listed. Nothing but consumed samples counts, so a resumed run goes on where it was.
//
// Example, ramp_up(start 4, increment 4, samples 30, final 16): three increments, one every 10 samples:
// batches of 4 before sample 10, of 8 before 20, of 12 before 30, then of 16.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::topology {

class BatchSchedule {
  public:
    struct Step {
        std::int64_t from; // consumed samples
        std::int64_t size; // samples
        bool operator==(const Step&) const = default;
    };

    static BatchSchedule constant(std::int64_t size) { return BatchSchedule({{0, size}}); }
    // final - start is a multiple of increment.
    static BatchSchedule ramp_up(std::int64_t start, std::int64_t increment, std::int64_t samples,
                                 std::int64_t final);
    // The first step is from 0; `from` ascends.
    static BatchSchedule stepwise(std::vector<Step> steps) { return BatchSchedule(std::move(steps)); }

    std::int64_t at(std::int64_t consumed_samples) const;
    const std::vector<Step>& steps() const { return steps_; }
    std::int64_t last() const { return steps_.back().size; }
    std::vector<std::int64_t> sizes() const; // ascending, each once
    bool is_constant() const { return steps_.size() == 1; }

    // Iterations whose samples together are at most `samples`; and the samples of so many iterations.
    std::int64_t iterations_within(std::int64_t samples) const;
    std::int64_t samples_of(std::int64_t iterations) const;

  private:
    explicit BatchSchedule(std::vector<Step> steps) : steps_(std::move(steps)) {}
    std::vector<Step> steps_; // `from` ascends, sizes change
};

} // namespace trireme::topology
