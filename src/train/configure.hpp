// From resolved options to the small structs of the layers below, which do not know options.
#pragma once

#include <memory>

#include "trireme/data/dataset.hpp"
#include "trireme/data/tokenizer.hpp"
#include "trireme/optimizer/loss_scale.hpp"
#include "trireme/optimizer/rate_schedule.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

std::unique_ptr<data::Tokenizer> make_tokenizer(const options::Resolved& options);
// Words of the model: those of the tokenizer, or more where --vocab-size says so. Throws Error (usage).
std::int64_t model_vocabulary(const options::Resolved& options, const data::Tokenizer& tokenizer);
data::DatasetOptions dataset_options(const options::Resolved& options, std::int64_t vocabulary);
std::unique_ptr<backend::Backend> make_backend(const options::Resolved& options,
                                               const comm::Runtime& runtime);
// Where the end of a document means something, the caller adds which token that is (setup.documents.end).
EngineSetup engine_setup(const options::Resolved& options, std::int64_t vocabulary, Purpose purpose);
optimizer::RateSchedule rate_schedule(const options::Resolved& options);
optimizer::LossScaleSetup loss_scale(const options::Resolved& options);

} // namespace trireme::train
