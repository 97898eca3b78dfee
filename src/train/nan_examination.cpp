// Looks at tensors by their sum of squares, which is finite only if all of it is.
#include "nan_examination.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "trireme/comm/phase.hpp"
#include "trireme/model/step_hooks.hpp"

namespace trireme::train {
namespace {

class FiniteProbe : public model::Probe {
  public:
    FiniteProbe(backend::Backend& backend, model::Probe* plant)
        : backend_(backend), plant_(plant), sum_(backend.allocate(sizeof(double)), Shape{1}, DType::f64) {}
    ~FiniteProbe() override { backend_.release(sum_.data(), sizeof(double)); }
    FiniteProbe(const FiniteProbe&) = delete;
    FiniteProbe& operator=(const FiniteProbe&) = delete;

    void output(std::int64_t layer, std::int64_t micro_batch, const Tensor& output) override {
        if (plant_ != nullptr)
            plant_->output(layer, micro_batch, output);
        note(output, {Flaw::Phase::forward, micro_batch, layer, ""});
    }
    void gradient(std::int64_t layer, std::int64_t micro_batch, const Tensor& gradient) override {
        if (plant_ != nullptr)
            plant_->gradient(layer, micro_batch, gradient);
        note(gradient, {Flaw::Phase::backward, micro_batch, layer, ""});
    }
    void note(const Tensor& x, Flaw flaw) {
        if (!flaw_ && !is_finite(x))
            flaw_ = std::move(flaw);
    }
    std::optional<Flaw> flaw() const { return flaw_; }

  private:
    bool is_finite(const Tensor& x) {
        backend_.compute().sum_of_squares(x, sum_, backend::GradWrite::overwrite);
        std::array<double, 1> value{};
        backend_.copy_to_host(sum_, Tensor(std::span<double>(value), Shape{1}));
        return std::isfinite(value[0]);
    }

    backend::Backend& backend_;
    model::Probe* plant_;
    Tensor sum_;
    std::optional<Flaw> flaw_;
};

std::string packed(const std::optional<Flaw>& flaw) {
    return flaw ? concat(static_cast<int>(flaw->phase), " ", flaw->micro_batch, " ", flaw->layer, " ",
                         flaw->parameter)
                : "";
}

std::optional<Flaw> unpacked(const std::string& text) {
    if (text.empty())
        return std::nullopt;
    std::istringstream in(text);
    int phase = 0;
    Flaw flaw;
    in >> phase >> flaw.micro_batch >> flaw.layer >> flaw.parameter;
    flaw.phase = static_cast<Flaw::Phase>(phase);
    return flaw;
}

// What comes first in a step: forward before backward, lower layers first on the way up and last on the way
// down.
auto order_of(const Flaw& flaw) {
    const bool down = flaw.phase == Flaw::Phase::backward;
    return std::tuple(flaw.phase, flaw.micro_batch, down ? -flaw.layer : flaw.layer, flaw.parameter);
}

std::string place(const Flaw& flaw) {
    const std::string layer =
        flaw.layer == model::Probe::kEmbedding ? "the embedding" : concat("layer ", flaw.layer);
    switch (flaw.phase) {
    case Flaw::Phase::forward:
        return concat("the output of ", layer, ", micro-batch ", flaw.micro_batch);
    case Flaw::Phase::loss:
        return "the loss, behind finite layers";
    case Flaw::Phase::backward:
        return concat("the gradient behind ", layer, ", micro-batch ", flaw.micro_batch);
    case Flaw::Phase::weight_gradient:
        return concat("the gradient of ", flaw.parameter);
    }
    return "";
}

// "the output of layer 3, micro-batch 0, on rank 2 (node1), rank 3 (node1)": the earliest; "" if there is
// none.
std::string earliest(const Flaws& flaws, const std::vector<std::string>& hosts) {
    const Flaw* first = nullptr;
    for (const std::optional<Flaw>& flaw : flaws)
        if (flaw && (first == nullptr || order_of(*flaw) < order_of(*first)))
            first = &*flaw;
    if (first == nullptr)
        return "";
    std::string text = place(*first) + ", on";
    for (std::size_t r = 0; r < flaws.size(); ++r)
        if (flaws[r] && order_of(*flaws[r]) == order_of(*first))
            text += concat(text.ends_with(" on") ? " " : ", ", "rank ", r, " (", hosts[r], ")");
    return text;
}

} // namespace

Flaws examine(Engine& engine, backend::Backend& backend, pipeline::BatchSource& batches,
              const StepSetup& step, model::Probe* plant) {
    const comm::PhaseScope phase("repeating a step that was not finite");
    FiniteProbe probe(backend, plant);
    engine.forward_and_backward(batches, step, &probe);
    if (const std::optional<double> loss = engine.own_loss(); loss && !std::isfinite(*loss) && !probe.flaw())
        probe.note(engine.own_loss_tensor(), {Flaw::Phase::loss, 0, 0, ""});
    const model::Parameters& parameters = engine.parameters();
    for (const model::HeldParameter& held : parameters.held())
        probe.note(parameters.gradient(held), {Flaw::Phase::weight_gradient, 0, 0, held.parameter.name});
    Flaws flaws;
    for (const std::string& text : engine.groups().world->all_gather(packed(probe.flaw())))
        flaws.push_back(unpacked(text));
    return flaws;
}

std::vector<int> ranks_with_bad_loss(Engine& engine) {
    const std::optional<double> own = engine.own_loss();
    std::vector<int> bad;
    const std::vector<std::string> all =
        engine.groups().world->all_gather(own && !std::isfinite(*own) ? "bad" : "");
    for (std::size_t r = 0; r < all.size(); ++r)
        if (!all[r].empty())
            bad.push_back(static_cast<int>(r));
    return bad;
}

Error judge_flaws(std::int64_t iteration, const std::string& samples, const std::vector<int>& bad_loss,
                  const Flaws& first, const Flaws& second, const std::vector<std::string>& hosts) {
    const std::string once = earliest(first, hosts), again = earliest(second, hosts);
    std::vector<std::string> details;
    if (!once.empty() && first == second) {
        details = {concat("first in ", once), samples,
                   "the step was repeated twice from the same state, and ended the same each time",
                   "the weights were not updated by this step and nothing was saved after it",
                   "try: resume from the last checkpoint with a lower --lr or a longer warm-up; look at "
                   "these samples"};
        return Error(ErrorCategory::non_finite,
                     concat("loss or gradient is not finite in iteration ", iteration,
                            ", and again when the step is repeated: a flaw of the model or its data, not of "
                            "the hardware"),
                     std::move(details));
    }
    std::string where;
    for (const int rank : bad_loss)
        where += concat(where.empty() ? "" : ", ", "rank ", rank, " (", hosts[static_cast<std::size_t>(rank)],
                        ")");
    details.push_back(
        where.empty()
            ? "first attempt: the loss of every data replica was finite, a gradient was not"
            : concat("first attempt: the loss was not finite on ", where, ", at the end of its pipeline"));
    details.push_back(concat("repeated: ", once.empty() ? "finite" : "first in " + once));
    details.push_back(concat("repeated again: ", again.empty() ? "finite" : "first in " + again));
    details.push_back(samples);
    details.emplace_back(
        "try: resume from the last checkpoint without these nodes (--exclude), and have them looked at "
        "(trireme preflight, memory errors of the GPU, dmesg)");
    return Error(
        ErrorCategory::device,
        concat("loss or gradient is not finite in iteration ", iteration,
               ", and not so when the same step is repeated: a flaw of the hardware, not of the model"),
        std::move(details));
}

} // namespace trireme::train
