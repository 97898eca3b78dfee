// Finalisation of gradients and the AdamW update.
#include "trireme/optimizer/optimizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/comm/phase.hpp"

namespace trireme::optimizer {

using backend::GradWrite;
using comm::ReduceOp;
using memory::Category;
using model::Bucket;
using model::BucketKind;
using model::HeldParameter;

Optimizer::Optimizer(const OptimizerSetup& setup, const model::Parameters& parameters, memory::Plan& plan)
    : setup_(setup), parameters_(parameters) {
    const DType type = parameters.setup().gradient_type;
    for (std::size_t i = 0; i < parameters.buckets().size(); ++i) {
        const Shape flat{parameters.buckets()[i].elements};
        first_items_.push_back(
            plan.add(Category::optimizer, concat("first moment of bucket ", i), flat, type));
        second_items_.push_back(
            plan.add(Category::optimizer, concat("second moment of bucket ", i), flat, type));
    }
    norm_item_ = plan.add(Category::buffers, "squared gradient norm", Shape{1}, DType::f64);
    factor_item_ = plan.add(Category::buffers, "gradient factor", Shape{1}, DType::f64);
}

void Optimizer::bind(const memory::Arena& arena, backend::Backend& backend,
                     const comm::ProcessGroups& groups) {
    backend_ = &backend;
    groups_ = &groups;
    for (const memory::Item item : first_items_)
        first_.push_back(arena.tensor(item));
    for (const memory::Item item : second_items_)
        second_.push_back(arena.tensor(item));
    squared_norm_ = arena.tensor(norm_item_);
    factor_ = arena.tensor(factor_item_);
}

void Optimizer::begin() {
    for (std::size_t i = 0; i < parameters_.buckets().size(); ++i)
        backend_->compute().fill(parameters_.bucket_gradients(i), 0);
}

void Optimizer::gradients_complete(int chunk) {
    for (std::size_t i = 0; i < parameters_.buckets().size(); ++i)
        if (parameters_.buckets()[i].chunk == chunk)
            groups_->data->all_reduce(parameters_.bucket_gradients(i), ReduceOp::sum);
}

// Whether this rank adds the bucket to the gradient norm: each logical parameter counts once. What is cut
// over tensor ranks counts on each of them, what they hold whole on the first, the copy of the tied embedding
// nowhere.
bool Optimizer::counted(const Bucket& bucket) const {
    if (bucket.role == model::Role::copy)
        return false;
    return bucket.kind != BucketKind::replicated || groups_->at.tensor == 0;
}

StepResult Optimizer::step(double learning_rate, double gradient_scale) {
    const comm::PhaseScope phase("optimizer step");
    backend::Operations& ops = backend_->compute();
    const bool tied_over_stages = groups_->grid.pipeline > 1;
    ops.fill(squared_norm_, 0);
    for (std::size_t i = 0; i < parameters_.buckets().size(); ++i) {
        const Bucket& bucket = parameters_.buckets()[i];
        if (bucket.kind == BucketKind::tied && tied_over_stages)
            groups_->embedding->all_reduce(parameters_.bucket_gradients(i), ReduceOp::sum);
        if (counted(bucket))
            ops.sum_of_squares(parameters_.bucket_gradients(i), squared_norm_, GradWrite::accumulate);
    }
    groups_->model->all_reduce(squared_norm_, ReduceOp::sum);

    std::array<double, 1> value{};
    backend_->copy_to_host(squared_norm_, Tensor(std::span<double>(value), Shape{1}));
    StepResult result;
    result.gradient_norm = std::sqrt(value[0]) * gradient_scale;
    result.updated = std::isfinite(result.gradient_norm);
    // The small constant keeps the quotient finite, as in torch.nn.utils.clip_grad_norm_ and Megatron-LM.
    const double clip =
        setup_.clip_norm > 0 ? std::min(1.0, setup_.clip_norm / (result.gradient_norm + 1e-6)) : 1.0;
    value[0] = result.updated ? gradient_scale * clip : result.gradient_norm;
    backend_->copy_to_device(Tensor(std::span<double>(value), Shape{1}), factor_);
    if (result.updated)
        ++steps_;
    for (std::size_t i = 0; i < parameters_.buckets().size(); ++i)
        update_bucket(i, learning_rate);
    return result;
}

// One call for each run of neighbours that all decay or all do not; alignment gaps are zero and stay so.
void Optimizer::update_bucket(std::size_t number, double learning_rate) {
    const Bucket& bucket = parameters_.buckets()[number];
    backend::Adam adam;
    adam.learning_rate = learning_rate;
    adam.beta1 = setup_.beta1;
    adam.beta2 = setup_.beta2;
    adam.epsilon = setup_.epsilon;
    adam.step = std::max<std::int64_t>(steps_, 1);
    const auto decays = [&](std::size_t member) {
        return parameters_.held()[bucket.members[member]].parameter.decays;
    };
    for (std::size_t begin = 0; begin < bucket.members.size();) {
        std::size_t end = begin + 1;
        while (end < bucket.members.size() && decays(end) == decays(begin))
            ++end;
        const std::int64_t first = parameters_.held()[bucket.members[begin]].flat.begin;
        const std::int64_t count = parameters_.held()[bucket.members[end - 1]].flat.end - first;
        adam.weight_decay = decays(begin) ? setup_.weight_decay : 0;
        backend_->compute().adam_update(parameters_.bucket_weights(number).flat(first, count),
                                        parameters_.bucket_gradients(number).flat(first, count),
                                        first_[number].flat(first, count), second_[number].flat(first, count),
                                        {}, factor_, adam);
        begin = end;
    }
}

Tensor Optimizer::first_moment(const HeldParameter& held) const {
    return first_[static_cast<std::size_t>(held.bucket)]
        .flat(held.flat.begin, held.flat.size())
        .reshaped(held.shard.local);
}

Tensor Optimizer::second_moment(const HeldParameter& held) const {
    return second_[static_cast<std::size_t>(held.bucket)]
        .flat(held.flat.begin, held.flat.size())
        .reshaped(held.shard.local);
}

} // namespace trireme::optimizer
