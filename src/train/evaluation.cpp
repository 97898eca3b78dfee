// Evaluates global batch by global batch.
#include "evaluation.hpp"

#include <iostream>
#include <optional>

#include "batches.hpp"
#include "first_screen.hpp"
#include "trireme/base/progress_line.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/plan/screen.hpp"

namespace trireme::train {

std::optional<double> mean_loss(Engine& engine, const data::Dataset& dataset, data::Split split,
                                std::int64_t first_sample, const options::Resolved& options,
                                const LeavesEvaluation& leaves) {
    const comm::PhaseScope phase("evaluation");
    DatasetBatches batches(dataset, split, engine, first_sample, static_cast<int>(options.data.num_workers));
    std::optional<ProgressLine> progress;
    if (engine.groups().world->rank() == 0)
        progress.emplace();
    TokenLosses all;
    const auto count = static_cast<double>(options.evaluation.eval_iters);
    for (std::int64_t i = 0; i < options.evaluation.eval_iters; ++i) {
        if (leaves && leaves(1 - static_cast<double>(i) / count))
            return std::nullopt;
        if (progress)
            progress->update([&] {
                return concat("evaluating ", data::name_of(split), ": ", i, " of ",
                              options.evaluation.eval_iters, " batches");
            });
        const TokenLosses losses = engine.evaluate(batches, options.batch.num_microbatches);
        all.sum += losses.sum;
        all.tokens += losses.tokens;
        batches.advance(options.batch.global_batch_size);
    }
    if (engine.setup().documents.any() && batches.ends_seen(engine.groups()) == 0 &&
        engine.groups().world->rank() == 0 && engine.setup().purpose == Purpose::forward_only)
        std::cout << plan::screen_row("warning",
                                      no_document_ends(engine.setup(), options.evaluation.eval_iters *
                                                                           options.batch.global_batch_size));
    return all.mean();
}

} // namespace trireme::train
