// Whether ranks that hold the same numbers still do: parameters and optimizer state that tensor or data ranks
// hold in common, and both copies of a tied embedding.
#pragma once

#include <cstdint>

#include "trireme/train/engine.hpp"

namespace trireme::train {

// Bit by bit, by hashes. Collective over the world; throws Error (communication) on all ranks that names the
// parameter, the ranks and who holds what. `iteration` is for the message.
void check_replicas(Engine& engine, backend::Backend& backend, std::int64_t iteration);

} // namespace trireme::train
