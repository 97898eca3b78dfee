// `trireme generate`: continues a prompt with a checkpoint, and `trireme evaluate`: its loss on data.
#pragma once

#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {

// Prints the prompt and what follows it. The whole context is computed again for each token. Collective over
// the world.
int generate(const options::Resolved& options, comm::Runtime& runtime);

// Prints loss and perplexity of the checkpoint on each part of the data that --split gives a share but train.
int evaluate(const options::Resolved& options, comm::Runtime& runtime);

} // namespace trireme::train
