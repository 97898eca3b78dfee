// The one place where contributions of ranks are added: in rank order, element by element, so that the bits
// do not depend on how they travelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/comm/communicator.hpp"

namespace trireme::comm {

// out[i] = parts[0][i] + parts[1][i] + ... from left to right, or the maximum (a NaN wins). bf16 and fp16 are
// added in float and rounded once. `out` may be one of the parts.
void reduce_in_rank_order(ReduceOp op, DType type, std::span<const std::byte* const> parts, std::byte* out,
                          std::int64_t count);

} // namespace trireme::comm
