// GPipe (Huang et al. 2019): all forwards, then all backwards, here in the same order so that gradients are
// summed as in every other schedule. Every stage holds all m micro-batches. With p equal stages the bubble is
// (p - 1) / (m + p - 1).
//
// 3 stages, 4 micro-batches, backwards twice as long as forwards:
//
//     stage 0  0123......aabbccdd
//     stage 1  .0123...aabbccdd..
//     stage 2  ..0123aabbccdd....
#include "schedule_parts.hpp"

namespace trireme::topology {

ComputeOrder gpipe_order(int stages, int micro_batches) {
    std::vector<Instruction> stage;
    stage.reserve(2 * static_cast<std::size_t>(micro_batches));
    for (const Op op : {Op::forward, Op::backward})
        for (int m = 0; m < micro_batches; ++m)
            stage.push_back({op, m, 0});
    return ComputeOrder(static_cast<std::size_t>(stages), stage);
}

} // namespace trireme::topology
