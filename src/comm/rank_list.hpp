// Ranks as a person reads them.
#pragma once

#include <string>
#include <vector>

namespace trireme::comm {

// Ascending ranks 0 1 2 5 -> "ranks 0-2, 5"; one rank -> "rank 5"; long lists end in "... (N ranks)".
std::string rank_list(const std::vector<int>& ranks);

} // namespace trireme::comm
