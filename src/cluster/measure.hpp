// What the machine does, measured: matrix products of each device, and the communication of the very groups
// that a layout makes. Private to the layer.
#pragma once

#include "trireme/backend/backend.hpp"
#include "trireme/cluster/facts.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::cluster {

// matrix_gflops: all ranks at once, as in training; the middle one of five times.
void measure_matrices(backend::Backend& backend, Facts& facts);

// Of the tensor, data and pipeline group: members.GROUP, place.GROUP (inside a node or across nodes),
// group.GROUP.OPERATION.gbs and .wrong (elements of sums that are not exact). Bus bandwidths: bytes times
// 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter and all-gather, 1 for send and receive, a second: what
// a link has to carry whatever n is. Collective over the world.
void measure_groups(comm::Runtime& runtime, const topology::Grid& grid, backend::Backend& backend,
                    Facts& facts);

} // namespace trireme::cluster
