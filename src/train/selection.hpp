// Which checkpoint the options ask for, and what a person is told when it is another one.
#pragma once

#include <string>
#include <vector>

#include "trireme/checkpoint/select.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {

checkpoint::Wanted wanted_checkpoint(const options::Resolved& options);

// Says loudly, once, which checkpoints were passed over for the one that was taken, and why.
void warn_passed_over(const checkpoint::Selection& selection, const comm::Runtime& runtime);

// Throws Error (checkpoint) if the options of the model differ in the two: a run that took them from `from`
// would compute another model than the one that `loaded` was trained as.
void require_same_model_options(const std::filesystem::path& from, const std::filesystem::path& loaded);

// A line for each option of the optimizer, its rate and the masks that the checkpoint was saved with another
// value of: which counts, and both values. `saved`: the options in the checkpoint.
std::vector<std::string> differing_options(const std::string& saved, const options::Resolved& options);

// What happened and its first detail, in one line.
std::string first_words(const Error& error);

} // namespace trireme::train
