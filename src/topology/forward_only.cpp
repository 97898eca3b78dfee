// Forward passes only. With one chunk each stage takes the micro-batches in turn. With more, groups of as
// many micro-batches as there are stages go through chunk 0, then through chunk 1, and so on: when stage 0 is
// through with a group, the first of it has come around the ring. So a full group leaves no stage idle, and m
// micro-batches (m a multiple of p) over p equal stages of v chunks take m * v + p - 1 forwards.
//
// 2 stages, 2 chunks, 4 micro-batches (chunk 0, chunk 1 of the first group, then of the second):
//
//     stage 0  01012323.
//     stage 1  .01012323
#include <algorithm>

#include "schedule_parts.hpp"

namespace trireme::topology {

ComputeOrder forward_order(int stages, int micro_batches, int chunks) {
    std::vector<Instruction> stage;
    for (int first = 0; first < micro_batches; first += stages)
        for (int chunk = 0; chunk < chunks; ++chunk)
            for (int m = first; m < std::min(first + stages, micro_batches); ++m)
                stage.push_back({Op::forward, m, chunk});
    return ComputeOrder(static_cast<std::size_t>(stages), stage);
}

} // namespace trireme::topology
