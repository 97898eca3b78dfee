// Interleaved 1F1B (Narayanan et al. 2021) for any number of micro-batches. m micro-batches are cut into
// floor(m / p) groups, as even as can be; fewer than p are one group. Each group goes forwards through chunk
// 0, then chunk 1, ..., and backwards through the last chunk first. Stage s of p runs 2 (p - s - 1) + (v - 1)
// g warm-up forwards, g the largest group, then one forward and one backward in turn, then the backwards that
// are left. Where m is a multiple of p this is Megatron-LM's schedule.
//
// Why it cannot deadlock: give forward j of stage s the time 2 j + 2 s and backward k, which follows forward
// W_s + k, the time 2 (W_s + k) + 2 s + 1. Every input then lies before its use as long as a group has at
// least p micro-batches. A remainder of fewer as a last group, as Megatron's rule would have it, breaks that:
// a micro-batch needs p forwards to come around, but its next chunk is due after fewer. So what is left over
// joins the groups. A single small group has run all chunks but the last before any backward is due. (That
// the transfers' buffers suffice too is the checker's part.)
//
// With equal pieces and no transfer time the step takes, in forwards and backwards of a piece, m v + p - 1
// for m >= p: a bubble of (p - 1) / (m v + p - 1). With m < p each micro-batch passes the pieces as under
// 1F1B on p v stages: m + p v - 1. At no time does a stage hold more than W_s + 1 pieces of micro-batches (or
// all m v; Megatron's bound where m is a multiple of p), so multiples of p need least memory. Twice the
// warm-up of 1F1B a stage leaves a whole compute's time for each transfer. One stage takes its micro-batches
// one by one, one chunk is 1F1B.
//
// 2 stages, 2 chunks, 4 micro-batches, backwards twice as long as forwards:
//
//     stage 0  01012.aa3bb2aa3bb.cc.ddccdd
//     stage 1  .010aa1bb2aa3bb2cc3ddccdd..
#include <algorithm>

#include "schedule_parts.hpp"

namespace trireme::topology {

namespace {

int groups(int stages, int micro_batches) {
    return std::max(1, micro_batches / stages);
}

std::vector<Instruction> one_by_one(int micro_batches, int chunks) {
    std::vector<Instruction> stage;
    for (int m = 0; m < micro_batches; ++m) {
        for (int c = 0; c < chunks; ++c)
            stage.push_back({Op::forward, m, c});
        for (int c = chunks - 1; c >= 0; --c)
            stage.push_back({Op::backward, m, c});
    }
    return stage;
}

} // namespace

int largest_group(int stages, int micro_batches) {
    const int n = groups(stages, micro_batches);
    return (micro_batches + n - 1) / n;
}

ComputeOrder interleaved_order(int stages, int micro_batches, int chunks) {
    if (chunks == 1)
        return one_f_one_b_order(stages, micro_batches);
    if (stages == 1)
        return ComputeOrder{one_by_one(micro_batches, chunks)};

    std::vector<Instruction> forwards, backwards; // the same sequence on every stage
    const int count = groups(stages, micro_batches);
    for (int group = 0, first = 0; group < count; ++group) {
        const int end = first + micro_batches / count + (group < micro_batches % count ? 1 : 0);
        for (int c = 0; c < chunks; ++c)
            for (int m = first; m < end; ++m) {
                forwards.push_back({Op::forward, m, c});
                backwards.push_back({Op::backward, m, chunks - 1 - c});
            }
        first = end;
    }

    ComputeOrder order(static_cast<std::size_t>(stages));
    for (int s = 0; s < stages; ++s) {
        const auto warm_up = static_cast<std::size_t>(2 * (stages - s - 1) +
                                                      (chunks - 1) * largest_group(stages, micro_batches));
        std::vector<Instruction>& stage = order[static_cast<std::size_t>(s)];
        for (std::size_t k = 0; k < std::min(warm_up, forwards.size()); ++k)
            stage.push_back(forwards[k]);
        for (std::size_t k = 0; k < backwards.size(); ++k) {
            if (k + warm_up < forwards.size())
                stage.push_back(forwards[k + warm_up]);
            stage.push_back(backwards[k]);
        }
    }
    return order;
}

} // namespace trireme::topology
