// Runs the pieces of a stage dry and puts the stages together.
#include "trireme/plan/cost.hpp"

#include <algorithm>
#include <map>

#include "plan/cost_meter.hpp"
#include "plan/dry_step.hpp"
#include "trireme/base/error.hpp"
#include "trireme/catalogue/catalogue.hpp"

namespace trireme::plan {

Software software_of(const RunSetup& setup) {
    Software software;
    software.overlaps_reduction = setup.optimizer.overlap != optimizer::Overlap::none;
    software.overlaps_gather = setup.optimizer.overlap == optimizer::Overlap::reduction_and_gather;
    return software;
}

Seconds& Seconds::operator+=(const Seconds& other) {
    matmul += other.matmul;
    attention += other.attention;
    memory += other.memory;
    tensor += other.tensor;
    flops += other.flops;
    return *this;
}

Seconds Seconds::times(double factor) const {
    return {matmul * factor, attention * factor, memory * factor, tensor * factor, flops * factor};
}

Seconds StageTimes::micro_batch() const {
    Seconds sum;
    for (const PieceTimes& chunk : chunks)
        for (const Seconds& pass : {chunk.forward, chunk.input_gradient, chunk.weight_gradient})
            sum += pass;
    return sum;
}

namespace {

bool halves_backward(const RunSetup& setup) {
    return setup.schedule == topology::ScheduleKind::zb_h1;
}

// The pieces of a stage, bound to nowhere, with one slot of everything.
std::vector<model::Piece> dry_pieces(const RunSetup& setup, const topology::Coordinates& at,
                                     const model::Parameters& parameters, memory::Plan& plan) {
    std::vector<model::Piece> pieces;
    for (int chunk = 0; chunk < setup.chunks; ++chunk) {
        model::PieceSetup piece = pipeline::piece_of(parameters.setup().placement, at.pipeline, chunk);
        piece.delayed_gradients = halves_backward(setup) ? 1 : 0;
        pieces.emplace_back(stage_setup(setup, at), piece, plan);
    }
    return pieces;
}

// As one of many: adding to what is there.
constexpr model::Accumulation kOnePass{backend::GradWrite::accumulate, true};

PieceTimes time_piece(const RunSetup& setup, model::Piece& piece, const Tensor& hidden, CostMeter& meter,
                      model::StepHooks& hooks) {
    DryBatches batches(setup);
    PieceTimes times;
    piece.begin({.hooks = &hooks, .loss_gradient = 1});
    meter.take();
    piece.forward(batches.load(0), model::Mode::train, hidden);
    times.forward = meter.take().seconds;
    if (halves_backward(setup)) {
        piece.input_gradient(0, 0, hidden, kOnePass);
        times.input_gradient = meter.take().seconds;
        piece.weight_gradient(0, kOnePass);
        times.weight_gradient = meter.take().seconds;
    } else {
        piece.backward(0, 0, hidden, kOnePass);
        times.input_gradient = meter.take().seconds;
    }
    return times;
}

void require_known_type(const RunSetup& setup) {
    if (setup.type == DType::f64)
        throw Error(ErrorCategory::usage, "the cost model knows bf16 and fp32, not fp64",
                    {"--params-dtype fp64", "try: --bf16, or leave --machine out to see memory alone"});
}

} // namespace

StageTimes time_stage(const RunSetup& setup, int stage, const Machine& machine, const Software& software) {
    require_known_type(setup);
    const topology::Coordinates at{0, 0, stage};
    CostMeter meter(machine, software);
    backend::DryBackend backend(backend::Device::cuda, 1, &meter);
    const comm::ProcessGroups groups = comm::make_dry_groups(setup.grid, at, &meter);
    memory::Plan plan;
    model::Parameters parameters(parameter_setup(setup, at), plan);
    std::vector<model::Piece> pieces = dry_pieces(setup, at, parameters, plan);
    optimizer::OptimizerSetup one_by_one = optimizer_setup(setup);
    one_by_one.overlap = optimizer::Overlap::none; // each by itself; what overlaps is decided from the times
    optimizer::Optimizer optimizer(one_by_one, parameters, setup.grid, at, plan);
    const model::Dimensions d = model::dimensions(stage_setup(setup, at));
    const memory::Item hidden =
        plan.add(memory::Category::buffers, "output or gradient", Shape{d.Ts, d.B, d.C}, setup.type);
    const memory::Arena arena(plan, backend);
    parameters.bind(arena);
    optimizer.bind(arena, backend, groups);

    StageTimes times;
    optimizer.begin();
    const Tensor output = arena.tensor(hidden);
    for (model::Piece& piece : pieces) {
        piece.bind(arena, parameters, {&backend, groups.tensor.get()});
        times.chunks.push_back(time_piece(setup, piece, output, meter, optimizer));
        if (setup.grid.pipeline > 1)
            times.chunks.back().transfer =
                meter.transfer_seconds(setup.grid, at, static_cast<double>(output.bytes()));
    }
    meter.take();
    for (int chunk = 0; chunk < setup.chunks; ++chunk)
        optimizer.gradients_complete(chunk);
    times.reduction = meter.take().reduction;
    optimizer.step({}, 1);
    const CostMeter::Reading step = meter.take();
    times.optimizer += step.seconds.total() + step.other;
    times.gather = step.gather;

    std::int64_t largest = 0, all = 0;
    for (const model::Bucket& bucket : parameters.buckets()) {
        largest = std::max(largest, bucket.elements);
        all += bucket.elements;
    }
    times.overlap_loss = meter.overlap_loss(*groups.data);
    times.last_bucket = static_cast<double>(largest) / static_cast<double>(std::max<std::int64_t>(1, all));
    return times;
}

std::vector<StageTimes> time_stages(const RunSetup& setup, const Machine& machine, const Software& software) {
    const topology::Placement placement = placement_of(setup);
    std::map<std::vector<std::int64_t>, StageTimes> known; // by layers of the chunks, and what else is there
    std::vector<StageTimes> stages;
    for (int stage = 0; stage < setup.grid.pipeline; ++stage) {
        std::vector<std::int64_t> kind{stage == 0, stage == setup.grid.pipeline - 1};
        for (const topology::Interval& chunk : placement.layers[static_cast<std::size_t>(stage)])
            kind.push_back(chunk.size());
        const auto found = known.find(kind);
        stages.push_back(found != known.end() ? found->second
                                              : known[kind] = time_stage(setup, stage, machine, software));
    }
    return stages;
}

Prediction predict(const RunSetup& setup, const Machine& machine, const Software& software) {
    return predict(setup, time_stages(setup, machine, software), software);
}

Prediction predict(const RunSetup& setup, const std::vector<StageTimes>& stages, const Software& software) {
    Prediction result;
    result.schedule = schedule_of(setup);
    std::vector<std::vector<topology::PieceCost>> costs;
    for (const StageTimes& stage : stages) {
        costs.emplace_back();
        for (const PieceTimes& chunk : stage.chunks)
            costs.back().push_back({chunk.forward.total(), chunk.input_gradient.total(),
                                    chunk.weight_gradient.total(), chunk.transfer});
    }
    result.timeline = topology::simulate(result.schedule, costs);
    result.bubble = result.timeline.bubble;

    const auto micro_batches = static_cast<double>(setup.micro_batches());
    double reduced = 0, gather = 0, optimizer = 0, longest = -1;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        const StageTimes& stage = stages[s];
        double forward = 0, backward = 0;
        for (const PieceTimes& chunk : stage.chunks) {
            forward += chunk.forward.total();
            backward += chunk.input_gradient.total() + chunk.weight_gradient.total();
        }
        // Of a transfer that goes on bucket by bucket beside a pass of the last micro-batch: what that does
        // not hide, and what it loses.
        const auto exposed = [&](double seconds, bool overlaps, double beside) {
            if (!overlaps)
                return seconds;
            const double after = std::max(stage.last_bucket * seconds, seconds - beside);
            return after + stage.overlap_loss * (seconds - after);
        };
        reduced = std::max(reduced, result.timeline.ranks[s].back().end +
                                        exposed(stage.reduction, software.overlaps_reduction, backward));
        gather = std::max(gather, exposed(stage.gather, software.overlaps_gather, forward));
        optimizer = std::max(optimizer, stage.optimizer);
        const Seconds computing = stage.micro_batch().times(micro_batches);
        result.hardware_flops += computing.flops * setup.grid.tensor * setup.grid.data;
        if (computing.total() > longest) {
            longest = computing.total();
            result.computing = computing;
            result.stage = static_cast<int>(s);
        }
    }
    result.seconds = reduced + gather + optimizer;
    result.reduction = std::max(0.0, reduced - result.timeline.seconds);
    result.gather = gather;
    result.optimizer = optimizer;
    result.waiting = result.timeline.seconds - longest;

    const auto tokens = static_cast<double>(setup.global_batch * setup.model.sequence);
    result.tokens_per_second_per_gpu = tokens / result.seconds / setup.grid.ranks();
    result.model_flops = tokens * catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal);
    result.full_attention_flops =
        tokens * catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::full);
    return result;
}

} // namespace trireme::plan
