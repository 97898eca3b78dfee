// `trireme plan`: what a run would take and how long, from the options that the run would have. One process,
// no MPI, no GPU, nothing allocated.
#pragma once

#include <string>

#include "trireme/options/resolve.hpp"

namespace trireme::train {

// Writes the chart if one is asked for. What is to be printed comes through `say`, so that it stands before
// the Error of a layout that does not fit. Returns the exit code.
int plan(const options::Resolved& options, void (*say)(const std::string&));

} // namespace trireme::train
