// Walks over the steps of a batch schedule; a stretch of equal batches is one division.
#include "trireme/topology/batch_schedule.hpp"

#include <algorithm>
#include <limits>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::topology {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

// visit(iterations, size) for each stretch of equal batches, until it returns how many of them it takes, if
// fewer.
template <class Visit>
void walk(const std::vector<BatchSchedule::Step>& steps, const Visit& visit) {
    std::int64_t consumed = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const bool is_last = i + 1 == steps.size();
        if (!is_last && steps[i + 1].from <= consumed)
            continue; // one batch has gone beyond it
        const std::int64_t iterations =
            is_last ? kForever : divide_round_up(steps[i + 1].from - consumed, steps[i].size);
        if (visit(iterations, steps[i].size) < iterations)
            return;
        consumed += iterations * steps[i].size;
    }
}

} // namespace

// Increment k is due at sample k * samples / increments, rounded up.
BatchSchedule BatchSchedule::ramp_up(std::int64_t start, std::int64_t increment, std::int64_t samples,
                                     std::int64_t final) {
    TRIREME_ASSERT(start > 0 && increment > 0 && samples >= 0 && final >= start &&
                       (final - start) % increment == 0,
                   "a ramp from ", start, " by ", increment, " to ", final, " over ", samples, " samples");
    const std::int64_t increments = (final - start) / increment;
    std::vector<Step> steps{{0, start}};
    for (std::int64_t k = 1; k <= increments; ++k) {
        // k * samples may not fit: in quotient and remainder of samples by increments.
        const std::int64_t from =
            k * (samples / increments) + divide_round_up(k * (samples % increments), increments);
        if (from == steps.back().from)
            steps.back().size = start + k * increment;
        else
            steps.push_back({from, start + k * increment});
    }
    return BatchSchedule(std::move(steps));
}

std::int64_t BatchSchedule::at(std::int64_t consumed_samples) const {
    const auto after = std::ranges::upper_bound(steps_, consumed_samples, {}, &Step::from);
    return std::prev(after)->size;
}

std::vector<std::int64_t> BatchSchedule::sizes() const {
    std::vector<std::int64_t> sizes;
    for (const Step& step : steps_)
        sizes.push_back(step.size);
    std::ranges::sort(sizes);
    sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
    return sizes;
}

std::int64_t BatchSchedule::iterations_within(std::int64_t samples) const {
    std::int64_t total = 0, left = samples;
    walk(steps_, [&](std::int64_t iterations, std::int64_t size) {
        const std::int64_t taken = std::min(iterations, left / size);
        total += taken;
        left -= taken * size;
        return taken;
    });
    return total;
}

std::int64_t BatchSchedule::samples_of(std::int64_t iterations) const {
    std::int64_t total = 0, left = iterations;
    walk(steps_, [&](std::int64_t stretch, std::int64_t size) {
        const std::int64_t taken = std::min(stretch, left);
        total += taken * size;
        left -= taken;
        return taken;
    });
    return total;
}

} // namespace trireme::topology
