// The report of a preflight: for people or for programs. Pure functions. Private to the layer.
#pragma once

#include <string>
#include <vector>

#include "judge.hpp"

namespace trireme::cluster {

// Tables of nodes, ranks and groups; all findings; the verdict with the three worst.
std::string table(const std::string& title, const std::vector<RankFacts>& ranks,
                  const std::vector<Finding>& findings);

// One object: verdict, findings, and all facts of each rank; figures as numbers.
std::string json(const std::vector<RankFacts>& ranks, const std::vector<Finding>& findings);

bool passes(const std::vector<Finding>& findings); // no failure; warnings may be

} // namespace trireme::cluster
