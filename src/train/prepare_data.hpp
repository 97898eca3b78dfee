// --data-path FILE.jsonl: one rank writes the tokens into the cache while the others wait, and all read them.
#pragma once

#include <functional>
#include <string>

#include "trireme/comm/runtime.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::train {

// Replaces the JSONL files among the paths of `options` by prefixes of their tokens, after writing those that
// are not there yet. `say` shows a line on the first rank. Collective over the world; waits without a
// time-out.
void prepare_data(data::DatasetOptions& options, const std::string& cache_directory,
                  const data::Tokenizer& tokenizer, comm::Runtime& runtime,
                  const std::function<void(const std::string&)>& say);

} // namespace trireme::train
