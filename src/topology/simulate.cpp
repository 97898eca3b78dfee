// The time of a schedule: the replay's times, and the share of them in which ranks idle.
#include <algorithm>

#include "replay.hpp"
#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {

Timeline simulate(const Schedule& schedule, const std::vector<std::vector<PieceCost>>& costs) {
    TRIREME_ASSERT(costs.size() == static_cast<std::size_t>(schedule.stages), costs.size(), " costs for ",
                   schedule.stages, " stages");
    for (const auto& stage : costs)
        TRIREME_ASSERT(stage.size() == static_cast<std::size_t>(schedule.chunks), stage.size(), " costs for ",
                       schedule.chunks, " chunks");
    Replay played = replay(schedule, costs);
    if (!played.is_complete)
        throw Error(ErrorCategory::internal, concat("the ", name(schedule.kind), " schedule deadlocks"),
                    played.waits);

    Timeline timeline;
    double busy = 0;
    for (const auto& rank : played.ranks)
        for (const TimedInstruction& timed : rank) {
            timeline.seconds = std::max(timeline.seconds, timed.end);
            busy += timed.end - timed.start;
        }
    if (timeline.seconds > 0)
        timeline.bubble = 1 - busy / (schedule.stages * timeline.seconds);
    timeline.ranks = std::move(played.ranks);
    return timeline;
}

} // namespace trireme::topology
