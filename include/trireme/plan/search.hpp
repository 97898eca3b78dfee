// All layouts of a number of GPUs, ranked by predicted tokens per second: TP, PP, DP, schedule, micro-batch
// and recomputation, the global batch held fixed. Sequence parallelism is on with TP, the sharded optimizer
// with DP: both cost nothing and save memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/plan/cost.hpp"
#include "trireme/plan/machine.hpp"
#include "trireme/plan/run_setup.hpp"

namespace trireme::plan {

struct SearchSetup {
    int gpus = 1;
    int most_tensor = 8; // largest TP that is tried
    std::size_t wanted = 10;
};

struct Candidate {
    RunSetup setup;
    Prediction prediction;
    std::int64_t bytes = 0; // of the fullest rank
};

struct SearchResult {
    std::vector<Candidate> best;      // fastest first
    std::vector<std::string> reasons; // why the others lose, a line each
    std::int64_t layouts = 0;         // that the model and the batch allow
    std::int64_t looked_at = 0;       // of these, declared and simulated; the rest is estimated to be slower
    std::int64_t too_large = 0;       // of those looked at, for the memory
    std::int64_t least_bytes = 0;     // if none fits: what the smallest needs
};

// `base`: model, type, schedule and global batch; its layout is not used.
SearchResult search(const RunSetup& base, const SearchSetup& setup, const Machine& machine,
                    const Software& software);
// Throws Error (device) if nothing fits.
std::string describe_search(const SearchResult& result, const SearchSetup& setup, const Machine& machine);

} // namespace trireme::plan
