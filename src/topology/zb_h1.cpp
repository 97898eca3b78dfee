// Zero bubble, handcrafted schedule H1 (Qi et al. 2023): 1F1B with the backward in halves. Only the input
// gradient holds up other stages; stage s runs its weight gradients s micro-batches late, so that they fill
// what would be idle. Every stage holds up to p micro-batches then (or all m), as 1F1B's first does.
//
// With p equal stages, no transfer time and F, B, W seconds of a forward and the two halves, the step takes
//   m (F + B + W) + (p - 1) max(F + B - W, F, B) + max(0, p - m) min(F, B, W),
// with m >= p and W <= F, B the bubble of the paper: (p - 1) (F + B - W) where 1F1B has (p - 1) (F + B + W).
//
// 3 stages, 4 micro-batches, all three equally long (a, b: input gradients; A, B: weight gradients):
//
//     stage 0  012..aA3bBcCdD
//     stage 1  .01.a2bA3cBdCD
//     stage 2  ..0a1b2cA3dBCD
#include <algorithm>

#include "schedule_parts.hpp"

namespace trireme::topology {

ComputeOrder zb_h1_order(int stages, int micro_batches) {
    ComputeOrder order(static_cast<std::size_t>(stages));
    for (int s = 0; s < stages; ++s) {
        std::vector<Instruction>& stage = order[static_cast<std::size_t>(s)];
        const int warm_up = std::min(stages - s - 1, micro_batches);
        for (int m = 0; m < warm_up; ++m)
            stage.push_back({Op::forward, m, 0});
        for (int m = 0; m < micro_batches; ++m) {
            if (m + warm_up < micro_batches)
                stage.push_back({Op::forward, m + warm_up, 0});
            stage.push_back({Op::input_gradient, m, 0});
            if (m >= s)
                stage.push_back({Op::weight_gradient, m - s, 0});
        }
        for (int m = std::max(0, micro_batches - s); m < micro_batches; ++m)
            stage.push_back({Op::weight_gradient, m, 0});
    }
    return order;
}

} // namespace trireme::topology
