// Plays a schedule by the executor's rules, with every wait that it can meet: computes wait for their input
// and for a free send buffer; a transfer waits for its receive. The simulator reads the times, the checker
// whether all lists end. Every rule is monotone (what may run now may run later too), so the order in which
// ranks are advanced does not matter, and lists that stop here stop in every execution.
#pragma once

#include <string>
#include <vector>

#include "trireme/topology/schedule.hpp"

namespace trireme::topology {

struct Replay {
    std::vector<std::vector<TimedInstruction>> ranks; // compute instructions only
    bool is_complete = false;
    std::vector<std::string> waits; // if not complete: a line a stage that waits, what for
};

// The lists must be well formed (check()'s rules before the last).
Replay replay(const Schedule& schedule, const std::vector<std::vector<PieceCost>>& costs);

} // namespace trireme::topology
