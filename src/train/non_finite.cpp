// The Error of a step that is not finite.
#include "non_finite.hpp"

#include <cmath>

#include "batches.hpp"
#include "nan_examination.hpp"

namespace trireme::train {
namespace {

std::int64_t first_sample(const NonFiniteStep& step) {
    return step.progress.consumed_samples() - step.setup.global_batch;
}

std::string samples_of(const NonFiniteStep& step) {
    return concat("samples ", first_sample(step), " to ", step.progress.consumed_samples() - 1);
}

bool has_fixed_scale(const NonFiniteStep& step) {
    return !step.progress.loss_scale().dynamic() && step.setup.loss_scale != 1;
}

std::string scale_of(const NonFiniteStep& step) {
    if (step.progress.loss_scale().dynamic())
        return concat(", at the lowest loss scale ", step.setup.loss_scale);
    return has_fixed_scale(step) ? concat(", at the fixed loss scale ", step.setup.loss_scale) : "";
}

// Gradients that overflow by a scale that somebody chose are no flaw of model or rate.
std::string cure_of(const NonFiniteStep& step) {
    return concat(
        "try: ",
        has_fixed_scale(step) && std::isfinite(step.report.loss)
            ? "a lower --loss-scale, or none: the dynamic one finds what gradients "
              "bear; if that does not help, "
            : "",
        "resume from the last checkpoint with a lower --lr or a longer warm-up; "
        "--no-check-for-nan-in-loss-and-grad skips such steps instead; --rerun-nan tells model from "
        "hardware");
}

Error plain_error(const NonFiniteStep& step) {
    return Error(ErrorCategory::non_finite,
                 concat("loss or gradient is not finite in iteration ", step.progress.iteration()),
                 {concat("lm loss ", step.report.loss, ", gradient norm ", step.report.gradient_norm,
                         scale_of(step), ", ", samples_of(step)),
                  step.report.updated
                      ? "nothing was saved after it"
                      : "the weights were not updated by this step and nothing was saved after it",
                  cure_of(step)});
}

} // namespace

Error non_finite_error(const NonFiniteStep& step, const options::Resolved& options, comm::Runtime& runtime,
                       Engine& engine, backend::Backend& backend, const data::Dataset& dataset) {
    if (!options.training.rerun_nan || step.report.updated)
        return plain_error(step);
    const std::vector<int> bad_loss = ranks_with_bad_loss(engine);
    const auto again = [&] {
        DatasetBatches batches(dataset, data::Split::train, engine, first_sample(step),
                               static_cast<int>(options.data.num_workers));
        return examine(engine, backend, batches, step.setup);
    };
    const Flaws first = again(), second = again();
    return judge_flaws(step.progress.iteration(), samples_of(step), bad_loss, first, second, runtime.hosts());
}

} // namespace trireme::train
