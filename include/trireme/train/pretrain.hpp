// `trireme pretrain`: the training loop.
#pragma once

#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {

// Trains as the options say; returns the exit code. Collective over the world. Throws Error on all ranks
// together.
int pretrain(const options::Resolved& options, comm::Runtime& runtime);

} // namespace trireme::train
