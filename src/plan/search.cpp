// Every layout gets a time without its bubble's details first, from one layer timed for each TP, micro-batch
// and way of recomputation; the promising ones are then declared (does it fit?) and simulated in full, best
// estimate first, until the estimates of the rest lie clearly behind.
#include "trireme/plan/search.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/report.hpp"
#include "trireme/plan/screen.hpp"

namespace trireme::plan {
namespace {

using model::Recompute;

constexpr Recompute kRecomputes[] = {
    {Recompute::Mode::none, 0}, {Recompute::Mode::selective, 0}, {Recompute::Mode::uniform, 1}};

struct Estimate {
    RunSetup setup;
    double seconds = 0;
};

bool divides(std::int64_t value, std::int64_t by) {
    return value % by == 0;
}

std::vector<RunSetup> layouts(const RunSetup& base, const SearchSetup& search) {
    std::vector<RunSetup> found;
    const catalogue::ModelConfig& model = base.model;
    for (int tensor = 1; tensor <= std::min(search.most_tensor, search.gpus); ++tensor) {
        if (!divides(search.gpus, tensor) || !divides(model.heads, tensor) ||
            (!divides(model.groups, tensor) && !divides(tensor, model.groups)) ||
            !divides(model.ffn, tensor) || !divides(model.sequence, tensor))
            continue;
        for (int pipeline = 1; pipeline <= search.gpus / tensor && pipeline <= model.layers; ++pipeline) {
            if (!divides(search.gpus / tensor, pipeline))
                continue;
            RunSetup setup = base;
            setup.split = {};
            setup.grid = {tensor, search.gpus / tensor / pipeline, pipeline,
                          catalogue::key_value_holders(model, tensor)};
            setup.sequence_parallel = tensor > 1 ? model::SequenceParallel::yes : model::SequenceParallel::no;
            setup.optimizer.sharding =
                setup.grid.data > 1 ? optimizer::Sharding::data_ranks : optimizer::Sharding::none;
            setup.optimizer.overlap = setup.grid.data > 1 ? base.optimizer.overlap : optimizer::Overlap::none;
            for (std::int64_t micro_batch = 1; micro_batch <= 64; micro_batch *= 2) {
                if (!divides(base.global_batch, micro_batch * setup.grid.data))
                    continue;
                setup.micro_batch = micro_batch;
                for (const Recompute& recompute : kRecomputes)
                    for (int chunks = 1; chunks <= (pipeline > 1 ? 8 : 1); ++chunks) {
                        if (chunks > 1 && !divides(model.layers, std::int64_t{pipeline} * chunks))
                            continue;
                        setup.recompute = recompute;
                        setup.chunks = chunks;
                        setup.schedule = chunks > 1 ? topology::ScheduleKind::interleaved
                                                    : topology::ScheduleKind::one_f_one_b;
                        found.push_back(setup);
                        // Zero bubble keeps activations until its delayed weight gradients.
                        if (pipeline > 1 && chunks == 1 && recompute.mode == Recompute::Mode::none) {
                            setup.schedule = topology::ScheduleKind::zb_h1;
                            found.push_back(setup);
                        }
                    }
            }
        }
    }
    return found;
}

// Times of one layer, and what embedding and head add, for a TP, micro-batch and recomputation.
class LayerTimes {
  public:
    LayerTimes(const Machine& machine, const Software& software) : machine_(machine), software_(software) {}

    struct Times {
        PieceTimes layer, ends; // ends: embedding and head together
    };
    const Times& of(const RunSetup& setup) {
        const auto key = std::tuple(setup.grid.tensor, setup.micro_batch, setup.recompute.mode);
        const auto found = known_.find(key);
        if (found != known_.end())
            return found->second;
        RunSetup small = setup;
        small.grid.data = small.grid.pipeline = small.chunks = 1;
        small.schedule = topology::ScheduleKind::one_f_one_b;
        small.global_batch = small.micro_batch;
        small.split = {};
        small.model.layers = 1;
        const PieceTimes one = time_stage(small, 0, machine_, software_).chunks.front();
        small.model.layers = 2;
        const PieceTimes two = time_stage(small, 0, machine_, software_).chunks.front();
        Times times;
        const auto split = [](const Seconds& a, const Seconds& b, Seconds& layer, Seconds& ends) {
            layer = b;
            layer += a.times(-1);
            ends = a;
            ends += layer.times(-1);
        };
        split(one.forward, two.forward, times.layer.forward, times.ends.forward);
        split(one.input_gradient, two.input_gradient, times.layer.input_gradient, times.ends.input_gradient);
        return known_[key] = times;
    }

  private:
    const Machine& machine_;
    const Software& software_;
    std::map<std::tuple<int, std::int64_t, Recompute::Mode>, Times> known_;
};

double state_bytes_at_least(const RunSetup& setup, std::int64_t parameters) {
    const auto main = static_cast<double>(size_bytes(statistics_type(setup.type)));
    const double state = main * (setup.type == statistics_type(setup.type) ? 2 : 3) / setup.grid.data;
    return static_cast<double>(parameters) / (setup.grid.tensor * setup.grid.pipeline) *
           (static_cast<double>(size_bytes(setup.type)) + main + state);
}

// The pipeline full from end to end on its longest stage, filled and drained once; what follows the last
// backward pass is left out, so that hardly any layout is faster than this.
double estimate(const RunSetup& setup, const LayerTimes::Times& times) {
    const double layer = times.layer.forward.total() + times.layer.input_gradient.total();
    const double ends = times.ends.forward.total() + times.ends.input_gradient.total();
    const std::int64_t stages = setup.grid.pipeline;
    const auto layers = static_cast<double>(setup.model.layers);
    const double fullest = static_cast<double>(divide_round_up(setup.model.layers, stages)) * layer;
    const double last = static_cast<double>(setup.model.layers / stages) * layer + ends;
    const double mean = (layers * layer + ends) / static_cast<double>(stages);
    // Delayed weight gradients fill what the last stages would wait: forward and input gradient are two
    // thirds.
    const double filling = setup.schedule == topology::ScheduleKind::zb_h1 ? 1.0 / 3 : 1.0 / setup.chunks;
    return static_cast<double>(setup.micro_batches()) * std::max(fullest, last) +
           static_cast<double>(stages - 1) * mean * filling;
}

std::string recompute_words(const Recompute& recompute) {
    switch (recompute.mode) {
    case Recompute::Mode::none:
        return "none";
    case Recompute::Mode::selective:
        return "selective";
    case Recompute::Mode::uniform:
        return "full";
    case Recompute::Mode::block:
        return "block";
    }
    return "";
}

// "" for plain 1F1B.
std::string schedule_words(const RunSetup& setup) {
    if (setup.chunks > 1)
        return concat(setup.chunks, " chunks");
    return setup.schedule == topology::ScheduleKind::zb_h1 ? "zb-h1" : "";
}

std::string layout_name(const RunSetup& setup) {
    return concat(setup.grid.text(), ", micro-batch ", setup.micro_batch,
                  schedule_words(setup).empty() ? "" : ", ", schedule_words(setup), ", recompute ",
                  recompute_words(setup.recompute));
}

// Declares and simulates candidates once each.
class Looker {
  public:
    Looker(std::vector<Estimate> estimates, const Machine& machine, const Software& software)
        : estimates_(std::move(estimates)), machine_(machine), software_(software),
          parameters_(estimates_.empty() ? 0 : catalogue::parameter_count(estimates_.front().setup.model)),
          looked_(estimates_.size()) {}

    const std::vector<Estimate>& estimates() const { return estimates_; }

    // Bytes of the fullest rank, or a lower bound where that is too much already.
    std::int64_t bytes(std::size_t i) {
        Look& look = looked_[i];
        if (look.bytes != 0)
            return look.bytes;
        const RunSetup& setup = estimates_[i].setup;
        look.bytes = static_cast<std::int64_t>(state_bytes_at_least(setup, parameters_));
        if (look.bytes > room())
            return look.bytes;
        // Most micro-batches are in flight on the first stages, the logits lie on the last.
        const topology::Schedule schedule = schedule_of(setup);
        look.bytes = 0;
        for (const int stage :
             std::set<int>{0, std::min(1, setup.grid.pipeline - 1), setup.grid.pipeline - 1})
            if (look.bytes <= room())
                look.bytes = std::max(
                    look.bytes, declare_stage(setup, stage, {backend::Device::cuda, 1}, schedule).total);
        return look.bytes;
    }
    bool fits(std::size_t i) { return bytes(i) <= room(); }
    // Whether weights, gradients and optimizer alone do.
    bool could_fit(std::size_t i) const {
        return state_bytes_at_least(estimates_[i].setup, parameters_) <= static_cast<double>(room());
    }

    const Prediction& prediction(std::size_t i) {
        Look& look = looked_[i];
        if (look.prediction.seconds == 0) {
            look.prediction = predict(estimates_[i].setup, machine_, software_);
            look.prediction.schedule = {}; // long, and only to be drawn
            look.prediction.timeline = {};
        }
        return look.prediction;
    }

  private:
    std::int64_t room() const { return room_bytes(machine_); }
    struct Look {
        std::int64_t bytes = 0; // 0: not looked at
        Prediction prediction;
    };
    std::vector<Estimate> estimates_;
    const Machine& machine_;
    const Software& software_;
    std::int64_t parameters_;
    std::vector<Look> looked_;
};

// What grew most, in seconds, against the best layout.
std::string main_loss(const Prediction& slow, const Prediction& best) {
    const std::pair<double, const char*> parts[] = {
        {slow.waiting - best.waiting, "waiting in the pipeline"},
        {slow.computing.tensor - best.computing.tensor, "tensor communication"},
        {slow.computing.matmul + slow.computing.attention - best.computing.matmul - best.computing.attention,
         slow.hardware_flops > 1.02 * best.hardware_flops ? "recomputation" : "smaller or uneven products"},
        {slow.computing.memory - best.computing.memory, "memory-bound operations"},
        {slow.reduction + slow.gather - best.reduction - best.gather, "data-parallel communication"},
        {slow.optimizer - best.optimizer, "the optimizer"}};
    return std::ranges::max_element(parts)->second;
}

// The layouts that share one choice against the best of all: "14.4 % slower (...), by ...", or nothing if
// none of the fastest fits. Few are declared, fastest estimate first; those whose state alone is too large
// are passed over.
std::string verdict(Looker& looker, const Prediction& best, auto&& belongs) {
    constexpr int kMost = 10;
    int declared = 0;
    for (std::size_t i = 0; i < looker.estimates().size() && declared < kMost; ++i) {
        const RunSetup& setup = looker.estimates()[i].setup;
        if (!belongs(setup) || !looker.could_fit(i))
            continue;
        ++declared;
        if (!looker.fits(i))
            continue;
        const Prediction& prediction = looker.prediction(i);
        return concat(fixed(100 * (prediction.seconds / best.seconds - 1), 1), " % slower (",
                      layout_name(setup), "), by ", main_loss(prediction, best));
    }
    return "";
}

// One line for each choice that is not among the best, one for all that do not fit.
void explain(SearchResult& result, Looker& looker, const std::string& name,
             const std::vector<std::string>& choices, auto&& choice_of) {
    std::string too_large;
    for (const std::string& choice : choices) {
        const auto belongs = [&](const RunSetup& setup) { return choice_of(setup) == choice; };
        if (std::ranges::any_of(result.best, [&](const Candidate& c) { return belongs(c.setup); }))
            continue;
        const std::string text = verdict(looker, result.best.front().prediction, belongs);
        if (text.empty())
            too_large += concat(too_large.empty() ? "" : ", ", choice);
        else
            result.reasons.push_back(concat(name, " ", choice, ": ", text));
    }
    if (!too_large.empty())
        result.reasons.push_back(concat(name, " ", too_large, ": none of the fastest ten fits"));
}

} // namespace

SearchResult search(const RunSetup& base, const SearchSetup& setup, const Machine& machine,
                    const Software& software) {
    LayerTimes times(machine, software);
    std::vector<Estimate> estimates;
    for (const RunSetup& layout : layouts(base, setup))
        estimates.push_back({layout, estimate(layout, times.of(layout))});
    std::ranges::stable_sort(estimates, {}, &Estimate::seconds);

    SearchResult result;
    result.layouts = static_cast<std::int64_t>(estimates.size());
    Looker looker(std::move(estimates), machine, software);
    constexpr double kOptimism = 0.98;                   // an estimate is hardly ever more than 2 % too long
    std::vector<std::pair<double, std::size_t>> fitting; // seconds, index
    std::size_t end = 0;
    for (; end < looker.estimates().size(); ++end) {
        if (fitting.size() >= setup.wanted &&
            kOptimism * looker.estimates()[end].seconds > fitting[setup.wanted - 1].first)
            break;
        if (!looker.fits(end)) {
            ++result.too_large;
            if (result.least_bytes == 0 || looker.bytes(end) < result.least_bytes)
                result.least_bytes = looker.bytes(end);
            continue;
        }
        fitting.emplace_back(looker.prediction(end).seconds, end);
        std::ranges::sort(fitting);
    }
    result.looked_at = static_cast<std::int64_t>(end);
    for (std::size_t i = 0; i < std::min(setup.wanted, fitting.size()); ++i) {
        const std::size_t index = fitting[i].second;
        result.best.push_back(
            {looker.estimates()[index].setup, looker.prediction(index), looker.bytes(index)});
    }
    if (result.best.empty())
        return result;

    // The choices that occur, in order.
    const auto explain_all = [&](const std::string& name, auto&& number_of) {
        std::set<std::int64_t> numbers;
        for (const Estimate& estimate : looker.estimates())
            numbers.insert(number_of(estimate.setup));
        std::vector<std::string> choices;
        for (const std::int64_t number : numbers)
            choices.push_back(std::to_string(number));
        explain(result, looker, name, choices,
                [&](const RunSetup& layout) { return std::to_string(number_of(layout)); });
    };
    explain_all("TP", [](const RunSetup& s) { return std::int64_t{s.grid.tensor}; });
    explain_all("PP", [](const RunSetup& s) { return std::int64_t{s.grid.pipeline}; });
    explain_all("micro-batch", [](const RunSetup& s) { return s.micro_batch; });
    std::vector<std::string> ways;
    for (const Recompute& recompute : kRecomputes)
        ways.push_back(recompute_words(recompute));
    explain(result, looker, "recompute", ways,
            [](const RunSetup& layout) { return recompute_words(layout.recompute); });
    return result;
}

std::string describe_search(const SearchResult& result, const SearchSetup& setup, const Machine& machine) {
    if (result.layouts == 0)
        throw Error(
            ErrorCategory::usage,
            concat("no layout of ", setup.gpus, " GPUs divides the model and its batch"),
            {"TP must divide heads, groups, MLP width and sequence; DP x micro-batch the global batch; PP at "
             "most the layers",
             "try: another --search, or another --global-batch-size"});
    if (result.best.empty())
        throw Error(
            ErrorCategory::device,
            concat("no layout of ", setup.gpus, " GPUs fits ", machine.name, ": ", result.layouts, " tried"),
            {concat("the least that one needs is ", show_bytes(result.least_bytes), " a GPU, there are ",
                    show_bytes(room_bytes(machine))),
             "try: more GPUs, or a larger --search-max-tensor-parallel"});
    std::string text =
        screen_row("search", concat(result.layouts, " layouts of ", setup.gpus, " x ", machine.name, ", ",
                                    result.looked_at, " looked at in full, ", result.too_large,
                                    " of these too large for ", fixed(machine.memory_gib, 1),
                                    " GiB; global batch ", result.best.front().setup.global_batch));
    char line[160];
    std::snprintf(line, sizeof line, "%4s %4s %4s %9s %6s %6s %-10s %9s %10s %7s %7s %9s", "TP", "PP", "DP",
                  "schedule", "micro", "accum", "recompute", "s/step", "tokens/s", "MFU %", "bubble", "GiB");
    text += screen_row("", line);
    for (const Candidate& candidate : result.best) {
        const RunSetup& s = candidate.setup;
        const Prediction& p = candidate.prediction;
        std::snprintf(line, sizeof line, "%4d %4d %4d %9s %6lld %6lld %-10s %9.3f %10s %7.1f %6.1f%% %9.1f",
                      s.grid.tensor, s.grid.pipeline, s.grid.data,
                      (schedule_words(s).empty() ? "1f1b" : schedule_words(s)).c_str(),
                      static_cast<long long>(s.micro_batch), static_cast<long long>(s.micro_batches()),
                      recompute_words(s.recompute).c_str(), p.seconds,
                      fixed(p.tokens_per_second_per_gpu, p.tokens_per_second_per_gpu < 1000 ? 1 : 0).c_str(),
                      100 * p.tflops(p.model_flops, s.grid.ranks()) / machine.peak_tflops, 100 * p.bubble,
                      static_cast<double>(candidate.bytes) / (1024.0 * 1024 * 1024));
        text += screen_row("", line);
    }
    text += screen_row(
        "", "tokens/s are those of a GPU; sequence parallelism with TP and the distributed optimizer "
            "with DP are on");
    for (std::size_t i = 0; i < result.reasons.size(); ++i)
        text += screen_row(i == 0 ? "others" : "", result.reasons[i]);
    return text;
}

} // namespace trireme::plan
