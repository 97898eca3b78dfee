// How many hardware queues a GPU gives to this process (CUDA_DEVICE_MAX_CONNECTIONS), and what needs more.
#pragma once

#include "trireme/options/resolve.hpp"

namespace trireme::train {

// Throws Error (usage) if the environment sets fewer than the run's pipeline needs. Without the variable the
// backend asks for enough.
void require_queues(const options::Resolved& options);

} // namespace trireme::train
