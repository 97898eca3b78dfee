// Final norm, logits and vocabulary-parallel cross-entropy in operations of the backend.
#include "head.hpp"

namespace trireme::model {

using backend::GradWrite;
using comm::ReduceOp;
using memory::Category;
using memory::Item;

Head::Head(const StageSetup& setup) : setup_(setup), d_(dimensions(setup)), region_(setup) {}

HeadActivations<Item> Head::plan_activations(memory::Plan& plan, const std::string& name) const {
    const DType type = setup_.type, stat = statistics_type(type);
    const auto add = [&](const char* what, const Shape& shape, DType of) {
        return plan.add(Category::activations, concat(name, " ", what), shape, of);
    };
    const Shape hidden{d_.Ts, d_.B, d_.C};
    return {add("head input", hidden, type),
            add("final norm mean", Shape{d_.ns}, stat),
            add("final norm rstd", Shape{d_.ns}, stat),
            add("final norm", hidden, type),
            add("logits maximum", Shape{d_.n}, stat),
            add("logits sums", Shape{2, d_.n}, stat),
            add("targets", Shape{d_.n}, DType::i32),
            setup_.documents.masks_loss ? add("loss mask", Shape{d_.n}, stat) : Item{}};
}

void Head::plan_shared(memory::Plan& plan) {
    region_.plan(plan);
    logits_item_ = plan.add(Category::logits, "logits and their gradient", Shape{d_.n, d_.V}, setup_.type);
    grad_norm_item_ =
        plan.share(Category::activations, "gradient of final norm", Shape{d_.T, d_.B, d_.C}, setup_.type);
    loss_item_ = plan.add(Category::buffers, "loss", Shape{1}, statistics_type(setup_.type));
}

HeadActivations<Tensor> bind(const memory::Arena& arena, const HeadActivations<Item>& items) {
    const auto at = [&](Item item) { return arena.tensor(item); };
    return {at(items.input),   at(items.norm_mean), at(items.norm_rstd), at(items.norm),
            at(items.maximum), at(items.sums),      at(items.targets),   at(items.loss_mask)};
}

void Head::bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery) {
    machinery_ = machinery;
    region_.bind(arena, machinery);
    norm_.bind(parameters, "final_norm", setup_, *machinery.backend);
    const char* output = setup_.config.output_layer == catalogue::OutputLayer::tied ? "embedding.word.weight"
                                                                                    : "output.weight";
    word_ = parameters.weight(output).reshaped(Shape{d_.V, d_.C});
    grad_word_ = parameters.gradient(output).reshaped(Shape{d_.V, d_.C});
    logits_ = arena.tensor(logits_item_);
    grad_norm_ = arena.tensor(grad_norm_item_);
    loss_ = arena.tensor(loss_item_);
}

void Head::begin(double loss_gradient) {
    loss_gradient_ = loss_gradient;
    machinery_.backend->compute().fill(loss_, 0);
    logits_of_ = gradient_of_ = -1;
}

void Head::compute_logits(const HeadActivations<Tensor>& kept) {
    region_.enter_by_rows(kept.norm, [&](const Tensor& x, topology::Interval rows) {
        machinery_.backend->compute().linear_forward(x, word_, {}, rows_of(logits_, rows));
    });
}

void Head::forward(const HeadActivations<Tensor>& kept, std::int64_t micro_batch, Mode mode) {
    backend::Operations& ops = machinery_.backend->compute();
    norm_.forward(kept.input, kept.norm, kept.norm_mean, kept.norm_rstd);
    compute_logits(kept);
    logits_of_ = micro_batch;
    gradient_of_ = -1;
    if (mode == Mode::infer)
        return;
    if (mode == Mode::train && machinery_.tensor->size() == 1) {
        ops.cross_entropy(logits_, d_.valid_rows, kept.targets, kept.loss_mask, loss_gradient_, kept.maximum,
                          kept.sums, loss_);
        logits_of_ = -1;
        gradient_of_ = micro_batch;
        return;
    }
    ops.cross_entropy_maximum(logits_, d_.valid_rows, kept.maximum);
    machinery_.tensor->all_reduce(kept.maximum, ReduceOp::max);
    ops.cross_entropy_sums(logits_, d_.valid_rows, kept.targets, d_.first_row, kept.maximum, kept.sums);
    machinery_.tensor->all_reduce(kept.sums, ReduceOp::sum);
    ops.cross_entropy_loss(kept.sums, kept.loss_mask, loss_);
}

void Head::backward(const HeadActivations<Tensor>& kept, std::int64_t micro_batch, backend::GradWrite write,
                    Tensor grad) {
    backend::Operations& ops = machinery_.backend->compute();
    if (gradient_of_ != micro_batch) {
        if (logits_of_ != micro_batch)
            compute_logits(kept);
        ops.cross_entropy_gradient(logits_, d_.valid_rows, kept.targets, d_.first_row, kept.maximum,
                                   kept.sums, kept.loss_mask, loss_gradient_);
    }
    logits_of_ = gradient_of_ = -1;
    const TensorRegion::Entry entered = region_.start_enter(kept.norm);
    ops.linear_input_gradient(logits_, word_, grad_norm_);
    const Tensor grad_norm = region_.outside(grad_norm_);
    const comm::Request sum = region_.start_leave(grad_norm_, grad_norm);
    ops.linear_weight_gradient(region_.finish(entered), logits_, grad_word_, write);
    region_.finish(sum);
    norm_.gradients(grad_norm, kept.input, kept.norm_mean, kept.norm_rstd, grad, GradWrite::overwrite, write);
}

} // namespace trireme::model
