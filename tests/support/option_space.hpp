// What pretrain can be told about layout and model, as factors whose values are pieces of a command line. The
// options layer decides which of them go together: a case is allowed if it resolves.
#pragma once

#include <string>
#include <vector>

#include "support/covering.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::test {

// What a factor changes: how the model is trained (nothing may come of it), the number of data-parallel ranks
// (the same, but no option says it: ranks / (TP x PP)), or the model.
enum class Changes { layout, data_ranks, model };

struct Factor {
    std::string name;
    Changes what;
    std::vector<std::string> values; // the first: what one rank has without any option
};

const std::vector<Factor>& factors();

// Of all factors, or of those of the model alone (the rest as one rank has it). Arguments of pretrain, for a
// tiny model in fp64.
std::string command_line(const Case& of);
std::string model_command_line(const Case& of);
int ranks_of(const Case& of);

// Throws Error (usage) if the options do not go together.
options::Resolved resolve_line(const std::string& line, int ranks);

// Cases whose options break no rule, on at most so many ranks.
Space option_space(int most_ranks);

// "tensor 4, groups 2"
std::string describe(const Pair& pair);

} // namespace trireme::test
