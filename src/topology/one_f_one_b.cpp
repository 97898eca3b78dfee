// 1F1B (PipeDream-Flush; Narayanan et al. 2021): stage s of p runs min(p - s - 1, m) warm-up forwards, then
// one forward and one backward in turn, then the backwards that are left. It has GPipe's bubble, (p - 1) / (m
// + p - 1) with equal stages, but stage s never holds more than p - s micro-batches.
//
// 3 stages, 4 micro-batches, backwards twice as long as forwards:
//
//     stage 0  012....aa3bb.cc.dd
//     stage 1  .01..aa2bb3cc.dd..
//     stage 2  ..0aa1bb2cc3dd....
#include <algorithm>

#include "schedule_parts.hpp"

namespace trireme::topology {

ComputeOrder one_f_one_b_order(int stages, int micro_batches) {
    ComputeOrder order(static_cast<std::size_t>(stages));
    for (int s = 0; s < stages; ++s) {
        std::vector<Instruction>& stage = order[static_cast<std::size_t>(s)];
        const int warm_up = std::min(stages - s - 1, micro_batches);
        for (int m = 0; m < warm_up; ++m)
            stage.push_back({Op::forward, m, 0});
        for (int m = 0; m < micro_batches; ++m) {
            if (m + warm_up < micro_batches)
                stage.push_back({Op::forward, m + warm_up, 0});
            stage.push_back({Op::backward, m, 0});
        }
    }
    return order;
}

} // namespace trireme::topology
