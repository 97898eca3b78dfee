// Evaluates during training and after it.
#include "evaluations.hpp"

#include <algorithm>
#include <optional>

#include "evaluation.hpp"
#include "say.hpp"

namespace trireme::train {

Evaluations::Evaluations(const options::Resolved& options, comm::Runtime& runtime, Engine& engine,
                         const data::Dataset& dataset, StopRequests& requests, ExpectedTimes& times,
                         TrainingLog& log)
    : options_(options), runtime_(runtime), engine_(engine), dataset_(dataset), requests_(requests),
      times_(times), log_(log),
      wanted_(options.evaluation.eval_interval > 0 && options.evaluation.eval_iters > 0) {}

bool Evaluations::is_due(std::int64_t iteration) const {
    return wanted_ && dataset_.has(data::Split::valid) && iteration % options_.evaluation.eval_interval == 0;
}

void Evaluations::after_step(const Progress& progress) {
    validate(concat("iteration ", progress.iteration()), progress);
}

// The samples of evaluation k follow those of evaluation k - 1, so a resumed run sees the same; one beside
// the interval, at the end, begins at the first.
bool Evaluations::validate(const std::string& where, const Progress& progress) {
    const std::int64_t iteration = progress.iteration(),
                       before = is_due(iteration) ? iteration / options_.evaluation.eval_interval - 1 : 0;
    const bool whole = evaluate(data::Split::valid,
                                std::max<std::int64_t>(0, before) * options_.evaluation.eval_iters *
                                    options_.batch.global_batch_size,
                                where, progress);
    if (whole)
        validated_at_ = iteration;
    return whole;
}

bool Evaluations::at_the_end(const Progress& progress) {
    if (!wanted_)
        return true;
    const std::string where = "the end of training";
    bool whole = true;
    if (dataset_.has(data::Split::valid) && validated_at_ != progress.iteration())
        whole = validate(where, progress);
    if (whole && dataset_.has(data::Split::test))
        whole = evaluate(data::Split::test, 0, where, progress);
    return whole;
}

// False, saying so, if there is no time left for it.
bool Evaluations::evaluate(data::Split split, std::int64_t first_sample, const std::string& where,
                           const Progress& progress) {
    const Clock::time_point start = Clock::now();
    LeavesEvaluation leaves;
    if (requests_.active())
        leaves = [&](double rest) { return requests_.any_hurried(times_.evaluation(rest)); };
    const std::string what = split == data::Split::test ? "test" : "validation";
    const std::optional<double> loss = mean_loss(engine_, dataset_, split, first_sample, options_, leaves);
    if (loss) {
        times_.evaluation_took(seconds_since(start));
        log_.add_evaluation(what, where, *loss, progress);
    } else {
        say(runtime_, concat(" ", what, " at ", where, " is left out: the time left is needed to save"));
    }
    log_.leave_out(Clock::now() - start);
    return loss.has_value();
}

} // namespace trireme::train
