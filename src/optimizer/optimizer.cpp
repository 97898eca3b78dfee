// Finalisation of gradients and the AdamW update.
#include "trireme/optimizer/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/comm/phase.hpp"

namespace trireme::optimizer {

using backend::GradWrite;
using comm::ReduceOp;
using memory::Category;
using model::Bucket;
using model::BucketKind;
using model::HeldParameter;

namespace {

const char* name(StateKind kind) {
    constexpr std::array<const char*, kStateKinds> kNames{"master weights", "first moment", "second moment"};
    return kNames[static_cast<std::size_t>(kind)];
}

// Who completes the gradient of a parameter that this rank holds. A tied word embedding: the embedding where
// that is here, the head on the last stage of several.
model::Part part_of(const HeldParameter& held) {
    using Kind = model::Part::Kind;
    switch (held.parameter.owner) {
    case catalogue::Owner::layer:
        return {Kind::layer, held.parameter.layer};
    case catalogue::Owner::embedding:
        return {Kind::embedding};
    case catalogue::Owner::head:
        return {Kind::head};
    case catalogue::Owner::tied:
        return {held.role == model::Role::copy ? Kind::head : Kind::embedding};
    }
    TRIREME_ASSERT(false, "a parameter without an owner");
    return {};
}

} // namespace

Optimizer::Optimizer(const OptimizerSetup& setup, const model::Parameters& parameters,
                     const topology::Grid& grid, const topology::Coordinates& at, memory::Plan& plan)
    : setup_(setup), parameters_(parameters),
      has_master_(parameters.setup().weight_type != parameters.setup().gradient_type),
      splits_master_(has_master_ && parameters.setup().weight_type == DType::bf16) {
    const auto type_of = [&](StateKind kind) {
        return kind == StateKind::master_weights && splits_master_ ? DType::i16
                                                                   : parameters.setup().gradient_type;
    };
    for (std::size_t i = 0; i < parameters.buckets().size(); ++i) {
        const std::int64_t elements = parameters.buckets()[i].elements;
        State state;
        state.range = sharded() ? topology::part(elements, elements, grid.data, at.data)
                                : topology::Interval{0, elements};
        for (const StateKind kind : kAllStateKinds)
            if (has(kind))
                state.items[static_cast<std::size_t>(kind)] =
                    plan.add(Category::optimizer, concat(name(kind), " of bucket ", i),
                             Shape{state.range.size()}, type_of(kind));
        std::set<model::Part> parts;
        for (const std::size_t member : parameters.buckets()[i].members)
            parts.insert(part_of(parameters.held()[member]));
        state.parts = static_cast<int>(parts.size());
        for (const model::Part& part : parts)
            buckets_of_[part].push_back(i);
        states_.push_back(state);
        forward_order_.push_back(i);
    }
    // Chunk by chunk; within one, buckets follow each other in reverse model order.
    std::ranges::sort(forward_order_, [&](std::size_t a, std::size_t b) {
        const int of_a = parameters.buckets()[a].chunk, of_b = parameters.buckets()[b].chunk;
        return of_a != of_b ? of_a < of_b : a > b;
    });
    outcome_item_ = plan.add(Category::buffers, "squared gradient norm and factor", Shape{2}, DType::f64);
}

void Optimizer::bind(const memory::Arena& arena, backend::Backend& backend,
                     const comm::ProcessGroups& groups) {
    backend_ = &backend;
    groups_ = &groups;
    for (State& state : states_)
        for (std::size_t kind = 0; kind < state.items.size(); ++kind)
            state.tensors[kind] = arena.tensor(state.items[kind]);
    outcome_ = arena.tensor(outcome_item_);
    squared_norm_ = outcome_.flat(0, 1);
    factor_ = outcome_.flat(1, 1);
    std::vector<Tensor> exchanged; // over data ranks, step after step
    for (std::size_t i = 0; i < states_.size(); ++i) {
        exchanged.push_back(parameters_.bucket_gradients(i));
        if (sharded())
            exchanged.push_back(parameters_.bucket_weights(i));
    }
    groups_->data->register_buffers(exchanged);
}

Tensor Optimizer::gradients(std::size_t bucket, const topology::Interval& run) const {
    return parameters_.bucket_gradients(bucket).flat(run.begin, run.size());
}

Tensor Optimizer::owned_gradients(std::size_t bucket) const {
    return gradients(bucket, states_[bucket].range);
}

Tensor Optimizer::owned_weights(std::size_t bucket) const {
    const topology::Interval& range = states_[bucket].range;
    return parameters_.bucket_weights(bucket).flat(range.begin, range.size());
}

void Optimizer::set_master(const model::DrawnPart& drawn) {
    if (!has_master_)
        return;
    const State& state = states_[static_cast<std::size_t>(drawn.held.bucket)];
    const std::int64_t first = drawn.held.flat.begin + drawn.begin; // in the bucket
    const topology::Interval mine =
        intersect(topology::Interval{first, first + drawn.values.elements()}, state.range);
    if (mine.empty())
        return;
    const Tensor& from = splits_master_ ? drawn.rest : drawn.values;
    backend_->copy_to_device(from.flat(mine.begin - first, mine.size()),
                             state.tensors[static_cast<std::size_t>(StateKind::master_weights)].flat(
                                 mine.begin - state.range.begin, mine.size()));
}

void Optimizer::begin() {
    for (State& state : states_)
        state.parts_left = state.parts;
}

std::span<const std::size_t> Optimizer::buckets_of(const model::Part& part) const {
    const auto found = buckets_of_.find(part);
    return found == buckets_of_.end() ? std::span<const std::size_t>{} : found->second;
}

void Optimizer::start_reduction(std::size_t bucket) {
    const Tensor gradients = parameters_.bucket_gradients(bucket);
    states_[bucket].reduction = sharded()
                                    ? groups_->data->start_reduce_scatter(gradients, owned_gradients(bucket))
                                    : groups_->data->start_all_reduce(gradients, ReduceOp::sum);
}

void Optimizer::gradient_complete(const model::Part& part) {
    for (const std::size_t i : buckets_of(part)) {
        TRIREME_ASSERT(states_[i].parts_left > 0, "gradients were added to bucket ", i, " after its last");
        if (--states_[i].parts_left == 0 && setup_.overlap != Overlap::none)
            start_reduction(i);
    }
}

void Optimizer::gradients_complete(int chunk) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (parameters_.buckets()[i].chunk != chunk)
            continue;
        TRIREME_ASSERT(states_[i].parts_left == 0, "gradients of bucket ", i, " are not complete");
        if (setup_.overlap != Overlap::none)
            continue;
        start_reduction(i);
        groups_->data->wait(states_[i].reduction);
    }
}

void Optimizer::parameters_needed(const model::Part& part) {
    for (const std::size_t i : buckets_of(part))
        groups_->data->wait(states_[i].gathering);
}

bool Optimizer::in_flight() const {
    return std::ranges::any_of(
        states_, [](const State& state) { return state.gathering.pending() || state.reduction.pending(); });
}

void Optimizer::settle() {
    for (State& state : states_) {
        groups_->data->wait(state.gathering);
        groups_->data->wait(state.reduction);
    }
}

void Optimizer::progress() {
    if (setup_.overlap != Overlap::none)
        groups_->data->progress();
}

// Whether this rank adds the bucket to the gradient norm: each logical parameter counts once. What is cut
// over tensor ranks counts on each of them, what they hold whole on the first, the copy of the tied embedding
// nowhere. Data ranks all hold the same unless the state is sharded.
bool Optimizer::counted(const Bucket& bucket) const {
    if (bucket.role == model::Role::copy)
        return false;
    return bucket.kind != BucketKind::replicated || groups_->at.tensor == 0;
}

// Runs of neighbours in a bucket that tensor ranks hold in part together: keys and values of few groups, each
// of whose holders has seen the heads of its own. Cut to this rank's range.
std::vector<topology::Interval> Optimizer::shared_runs(std::size_t number) const {
    const Bucket& bucket = parameters_.buckets()[number];
    std::vector<topology::Interval> runs;
    if (bucket.kind != BucketKind::split || groups_->grid.key_value_holders == 1)
        return runs;
    const HeldParameter* before = nullptr; // the member before, if it is shared
    for (const std::size_t member : bucket.members) {
        const HeldParameter& held = parameters_.held()[member];
        if (held.shard.holders == 1) {
            before = nullptr;
            continue;
        }
        if (before != nullptr && before->flat.end == held.flat.begin)
            runs.back().end = held.flat.end;
        else
            runs.push_back(held.flat);
        before = &held;
    }
    std::erase_if(
        runs, [&](topology::Interval& run) { return (run = intersect(run, states_[number].range)).empty(); });
    return runs;
}

// Completes the gradients of this rank's ranges and adds up the squares of all gradients of the model.
void Optimizer::find_squared_norm() {
    backend::Operations& ops = backend_->compute();
    const bool tied_over_stages = groups_->grid.pipeline > 1;
    ops.fill(squared_norm_, 0);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const Bucket& bucket = parameters_.buckets()[i];
        if (bucket.kind == BucketKind::replicated && setup_.seen == SeenSequence::part)
            groups_->tensor->all_reduce(owned_gradients(i), ReduceOp::sum);
        if (bucket.kind == BucketKind::tied && tied_over_stages)
            groups_->embedding->all_reduce(owned_gradients(i), ReduceOp::sum);
        const std::vector<topology::Interval> shared = shared_runs(i);
        for (const topology::Interval& run : shared)
            groups_->key_value->all_reduce(gradients(i, run), ReduceOp::sum);
        if (!counted(bucket))
            continue;
        // Of what several hold the first one counts.
        std::int64_t begin = states_[i].range.begin;
        const auto count_until = [&](std::int64_t end) {
            if (begin < end)
                ops.sum_of_squares(gradients(i, {begin, end}), squared_norm_, GradWrite::accumulate);
        };
        for (const topology::Interval& run : shared)
            if (groups_->key_value->rank() > 0) {
                count_until(run.begin);
                begin = run.end;
            }
        count_until(states_[i].range.end);
    }
    groups_->model->all_reduce(squared_norm_, ReduceOp::sum);
    if (sharded())
        groups_->data->all_reduce(squared_norm_, ReduceOp::sum);
}

// The host asks for the norm when the update is enqueued: a device has that to do while the host reads the
// norm and prepares the next step.
// The update's kernels may load here for the first time, which waits for all that runs: every rank has
// enqueued all collectives of the step by then, so they end without the host.
StepResult Optimizer::step(const Rates& rates, double gradient_scale) {
    const comm::PhaseScope phase("optimizer step");
    for (State& state : states_)
        groups_->data->wait(state.reduction);
    find_squared_norm();
    backend_->compute().update_factor(squared_norm_, {gradient_scale, setup_.clip_norm}, factor_);
    const backend::HostCopy copy = backend_->start_copy_to_host(outcome_);
    for (const std::size_t i : forward_order_) {
        update_bucket(i, rates);
        if (!sharded())
            continue;
        states_[i].gathering =
            groups_->data->start_all_gather(owned_weights(i), parameters_.bucket_weights(i));
        if (setup_.overlap != Overlap::reduction_and_gather)
            groups_->data->wait(states_[i].gathering);
    }
    std::array<double, 2> outcome{}; // squared norm, factor
    const comm::DeviceWaitScope waiting;
    backend_->finish_copy_to_host(copy, Tensor(std::span<double>(outcome), Shape{2}));
    const bool updated = std::isfinite(outcome[1]);
    steps_ += updated ? 1 : 0;
    return {std::sqrt(outcome[0]) * gradient_scale, updated};
}

// One call for each run of neighbours that all decay or all do not, within this rank's range; alignment gaps
// are zero and stay so.
void Optimizer::update_bucket(std::size_t number, const Rates& rates) {
    const Bucket& bucket = parameters_.buckets()[number];
    const State& state = states_[number];
    backend::Adam adam;
    adam.learning_rate = rates.learning_rate;
    adam.beta1 = setup_.beta1;
    adam.beta2 = setup_.beta2;
    adam.epsilon = setup_.epsilon;
    adam.step = steps_ + 1;
    const auto held = [&](std::size_t member) -> const HeldParameter& {
        return parameters_.held()[bucket.members[member]];
    };
    for (std::size_t begin = 0; begin < bucket.members.size();) {
        std::size_t end = begin + 1;
        while (end < bucket.members.size() && held(end).parameter.decays == held(begin).parameter.decays)
            ++end;
        const topology::Interval run =
            intersect(topology::Interval{held(begin).flat.begin, held(end - 1).flat.end}, state.range);
        adam.weight_decay = held(begin).parameter.decays ? rates.weight_decay : 0;
        begin = end;
        if (run.empty())
            continue;
        const Tensor weights = parameters_.bucket_weights(number).flat(run.begin, run.size());
        const auto part = [&](StateKind kind) {
            return state.tensors[static_cast<std::size_t>(kind)].flat(run.begin - state.range.begin,
                                                                      run.size());
        };
        backend_->compute().adam_update(has_master_ ? part(StateKind::master_weights) : weights,
                                        parameters_.bucket_gradients(number).flat(run.begin, run.size()),
                                        part(StateKind::first_moment), part(StateKind::second_moment),
                                        has_master_ ? weights : Tensor{}, factor_, adam);
    }
}

std::vector<StatePart> Optimizer::parts(const HeldParameter& held, StateKind kind) const {
    const State& state = states_[static_cast<std::size_t>(held.bucket)];
    const topology::Box& box = held.shard.box;
    std::vector<StatePart> result;
    if (box.empty())
        return result;
    // Padding rows come last, so the real elements are a prefix of the parameter's run in the bucket.
    const topology::Interval real{held.flat.begin, held.flat.begin + box.elements()};
    const topology::Interval mine = intersect(real, state.range);
    if (mine.empty())
        return result;
    const std::vector<std::int64_t> extents = box.extents();
    std::int64_t position = mine.begin - state.range.begin;
    for (topology::Box& piece : topology::boxes_of_flat_range(
             extents, topology::Interval{mine.begin - real.begin, mine.end - real.begin})) {
        const std::int64_t elements = piece.elements();
        for (std::size_t axis = 0; axis < piece.axes.size(); ++axis) { // from the shard's to global indices
            piece.axes[axis].begin += box.axes[axis].begin;
            piece.axes[axis].end += box.axes[axis].begin;
        }
        const Tensor kept = state.tensors[static_cast<std::size_t>(kind)].flat(position, elements);
        if (kind == StateKind::master_weights && splits_master_)
            result.push_back({std::move(piece),
                              owned_weights(static_cast<std::size_t>(held.bucket)).flat(position, elements),
                              kept});
        else
            result.push_back({std::move(piece), kept});
        position += elements;
    }
    return result;
}

} // namespace trireme::optimizer
