// What `trireme preflight` takes from the options: those of a run that it needs, and its own. A model is not
// asked for, but if one is given, the layout must fit it as in a run.
#pragma once

#include "trireme/options/resolve.hpp"

namespace trireme::options {

struct ResolvedPreflight {
    Resolved::Layout layout;
    Resolved::Machine machine;
    std::string save;                   // "": none
    std::vector<std::string> data_path; // all parts, without weights
    std::string expect;                 // "": none
    bool json = false;
};

// Throws one Error (usage) with all problems of `parsed` and all broken rules.
ResolvedPreflight resolve_preflight(const Parsed& parsed, const Environment& environment);

} // namespace trireme::options
