// Who writes what: each element of the state once, whatever the layout.
#pragma once

#include <vector>

#include "contents.hpp"
#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::checkpoint {

// A piece of a dataset and its elements in this rank's device memory.
struct Piece {
    std::size_t slot = 0;
    topology::Box box;
    Tensor tensor;
};

// The pieces that this rank writes, in the order of slots, none larger than `piece_bytes`. What several ranks
// hold alike (data ranks; tensor ranks of what is not cut) they share out among themselves, row by row, so
// that all write.
std::vector<Piece> share_of_this_rank(const Model& model, const Contents& contents, std::int64_t piece_bytes);

} // namespace trireme::checkpoint
