// `trireme checkpoint ...`: one process, no MPI.
#pragma once

#include "trireme/options/parse.hpp"

namespace trireme {

// Returns the exit code; throws Error.
int run_checkpoint_tool(const options::Parsed& parsed);

} // namespace trireme
