// `trireme preflight`: whether these nodes are fit for a run, found out in a minute instead of in its first
// night.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::cluster {

enum class ReportForm : std::uint8_t { table, json };

struct PreflightSetup {
    topology::Grid grid;                 // whose groups are measured
    std::string save;                    // tried out; "": not
    std::vector<std::string> data_files; // tried out
    std::string expect;                  // a file of expectations; "": none
    ReportForm form = ReportForm::table;
    std::vector<std::pair<std::string, std::string>> versions; // of what is compiled in or loaded, by name
};

// Gathers facts, measures, judges and reports on standard output. Returns the exit code: 0, or that of a
// failed preflight. Collective over the world. Throws Error (usage) on all ranks for expectations that cannot
// be read.
int preflight(const PreflightSetup& setup, comm::Runtime& runtime, backend::Backend& backend);

} // namespace trireme::cluster
