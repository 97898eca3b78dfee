// The pairs of values of the option space that no allowed case holds, whatever else is chosen. As a person
// who knows the rules says it, for the search to be held against: a pair that it misses, or that the options
// refuse by mistake, would otherwise be left out of the tests in silence.
#pragma once

#include <string>
#include <vector>

#include "support/option_space.hpp"

namespace trireme::test {

// Refused by the options on any number of ranks.
std::vector<Pair> pairs_refused();
// Of two of tensor, pipeline and data ranks, whose product is more than `most`.
std::vector<Pair> pairs_of_more_ranks(int most);

} // namespace trireme::test
