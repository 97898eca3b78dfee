// What a person sees before the first step: which rank is where, whether the cut took effect, what memory it
// takes, and how much of the data the run will see.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// "trireme 0.1.0 (3f9c2e1, ...)".
std::string version_line();

// The lines layout, model and memory. Collective over the world (memory is gathered); the text is meant for
// rank 0.
std::string describe_engine(Engine& engine, comm::Runtime& runtime, const backend::Backend& backend);

// The line documents, "" unless their ends mean something: "attention within documents, positions restart;
// a document ends with token 50256".
std::string describe_documents(const EngineSetup& setup);
// What to say where no document ended in `samples` samples.
std::string no_document_ends(const EngineSetup& setup, std::int64_t samples);

// The parts that the run reads. Too little in one of them is an error of Dataset::info().
std::vector<data::Split> wanted_parts(const options::Resolved& options, const data::Dataset& dataset);

// The lines data: for each part that the run reads and each member of its blend tokens, samples and the
// epochs that the run makes of it.
std::string describe_data(const options::Resolved& options, const data::Dataset& dataset);

} // namespace trireme::train
