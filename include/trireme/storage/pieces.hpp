// Cutting boxes into pieces small enough for one transfer.
#pragma once

#include <vector>

#include "trireme/topology/box.hpp"

namespace trireme::storage {

// A part of a box and where its elements begin among the box's, which it follows without a gap.
struct BoxPiece {
    topology::Box box;
    std::int64_t first = 0;
};

// Row-major pieces of at most `limit` elements, as few as slices of one axis allow.
// Example: [0,5) x [0,4) with limit 8 -> rows [0,2), [2,4), [4,5); with limit 3 -> each row as columns [0,3),
// [3,4).
std::vector<BoxPiece> cut(const topology::Box& box, std::int64_t limit);

} // namespace trireme::storage
