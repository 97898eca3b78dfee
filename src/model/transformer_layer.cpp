// Forward, input gradient and weight gradient of a transformer layer, in operations of the backend.
#include "transformer_layer.hpp"

#include <cmath>

namespace trireme::model {

using backend::GradWrite;
using memory::Category;
using memory::Item;

namespace {

constexpr RecomputedModules kNoModules{.core_attention = false, .norms = false, .mlp = false};

catalogue::RotaryConfig rotary_config(const StageSetup& setup) {
    catalogue::RotaryConfig rotary = setup.config.rotary;
    rotary.head_dim = setup.config.head_dim;
    return rotary;
}

} // namespace

TransformerLayer::TransformerLayer(const StageSetup& setup, std::int64_t number)
    : setup_(setup), d_(dimensions(setup)), number_(number),
      recomputed_(setup.recompute.mode == Recompute::Mode::selective ? setup.recompute.modules : kNoModules),
      region_(setup), up_width_(gated() ? 2 * d_.F : d_.F) {}

void TransformerLayer::plan_shared(memory::Plan& plan) {
    region_.plan(plan);
    if (setup_.config.positions == catalogue::Positions::rotary)
        rotary_item_ =
            plan.share(Category::buffers, "rotary table",
                       Shape{setup_.config.sequence, catalogue::rotary_dimensions(rotary_config(setup_))},
                       statistics_type(setup_.type));
}

void TransformerLayer::fill_shared() const {
    if (!rotary_table_.defined() || machinery_.backend->dry())
        return;
    const auto fill = [&](auto values) {
        const Tensor host{std::span(values), rotary_table_.shape()};
        catalogue::fill_rotary_table(rotary_config(setup_), host);
        machinery_.backend->copy_to_device(host, rotary_table_);
    };
    const auto elements = static_cast<std::size_t>(rotary_table_.elements());
    if (rotary_table_.type() == DType::f64)
        fill(std::vector<double>(elements));
    else
        fill(std::vector<float>(elements));
}

LayerActivations<Item> TransformerLayer::plan_activations(memory::Plan& plan, const std::string& name,
                                                          Kept kept) const {
    const DType type = setup_.type, stat = statistics_type(type);
    const bool all_shared = kept == Kept::until_recomputed;
    const auto share = [&](const std::string& what, const Shape& shape, DType of) {
        return plan.share(Category::activations, concat("recomputed ", what), shape, of);
    };
    const auto add = [&](const char* what, const Shape& shape, DType of) {
        const std::string full = concat(name, " ", what);
        return all_shared ? share(full, shape, of) : plan.add(Category::activations, full, shape, of);
    };
    // What a recomputed module puts out: one for all layers and micro-batches. A backward pass is through
    // with one norm of a layer before it comes to the other, so they share.
    const auto add_output = [&](bool recomputed, const char* what, const char* shared, const Shape& shape,
                                DType of) {
        return recomputed && !all_shared ? share(shared, shape, of) : add(what, shape, of);
    };
    const auto of_norm = [&](const char* what, const char* shared, const Shape& shape, DType of) {
        return add_output(recomputed_.norms, what, shared, shape, of);
    };
    const auto of_attention = [&](const char* what, const Shape& shape, DType of) {
        return add_output(recomputed_.core_attention, what, what, shape, of);
    };
    const auto of_mlp = [&](const char* what, const Shape& shape) {
        return add_output(recomputed_.mlp, what, what, shape, type);
    };
    const Shape tokens{d_.ns}, hidden{d_.Ts, d_.B, d_.C};
    LayerActivations<Item> items;
    items.attention_norm_mean = of_norm("attention norm mean", "norm mean", tokens, stat);
    items.attention_norm_rstd = of_norm("attention norm rstd", "norm rstd", tokens, stat);
    items.attention_norm = of_norm("attention norm", "norm", hidden, type);
    items.query_key_value = add("query, key, value", Shape{d_.T, d_.B, d_.H + 2 * d_.G, d_.D}, type);
    items.residual = add("residual", hidden, type);
    items.mlp_norm_mean = of_norm("mlp norm mean", "norm mean", tokens, stat);
    items.mlp_norm_rstd = of_norm("mlp norm rstd", "norm rstd", tokens, stat);
    items.mlp_norm = of_norm("mlp norm", "norm", hidden, type);
    items.up = of_mlp("mlp up", Shape{d_.n, up_width_});
    items.activated = of_mlp("mlp activated", Shape{d_.n, d_.F});
    items.attention = of_attention("attention", Shape{d_.T, d_.B, d_.H, d_.D}, type);
    items.logsumexp = of_attention("attention logsumexp", Shape{d_.B, d_.H, d_.T}, stat);
    return items;
}

LayerGradients<Item> TransformerLayer::plan_gradients(memory::Plan& plan, const std::string& name) const {
    const auto share = [&](const char* what, const Shape& shape) {
        return plan.share(Category::activations, concat("gradient of ", what), shape, setup_.type);
    };
    const auto keep = [&](const char* what, const Shape& shape) {
        return name.empty()
                   ? share(what, shape)
                   : plan.add(Category::activations, concat(name, " gradient of ", what), shape, setup_.type);
    };
    const Shape hidden{d_.T, d_.B, d_.C};
    return {keep("attention norm", hidden),
            keep("query, key, value", Shape{d_.T, d_.B, d_.H + 2 * d_.G, d_.D}),
            share("attention", Shape{d_.T, d_.B, d_.H, d_.D}), // no weight gradient reads it
            keep("projection", hidden),
            keep("mlp norm", hidden),
            share(gated() ? "mlp activated" : "mlp up", Shape{d_.n, d_.F}),
            keep("mlp up", Shape{d_.n, up_width_}),
            keep("mlp down", hidden)};
}

LayerActivations<Tensor> bind(const memory::Arena& arena, const LayerActivations<Item>& items) {
    const auto at = [&](Item item) { return arena.tensor(item); };
    return {at(items.attention_norm_mean),
            at(items.attention_norm_rstd),
            at(items.attention_norm),
            at(items.query_key_value),
            at(items.attention),
            at(items.logsumexp),
            at(items.residual),
            at(items.mlp_norm_mean),
            at(items.mlp_norm_rstd),
            at(items.mlp_norm),
            at(items.up),
            at(items.activated)};
}

LayerGradients<Tensor> bind(const memory::Arena& arena, const LayerGradients<Item>& items) {
    const auto at = [&](Item item) { return arena.tensor(item); };
    return {at(items.attention_norm), at(items.query_key_value), at(items.attention), at(items.projection),
            at(items.mlp_norm),       at(items.activated),       at(items.up),        at(items.down)};
}

void TransformerLayer::bind(const memory::Arena& arena, const Parameters& parameters,
                            const Machinery& machinery) {
    machinery_ = machinery;
    region_.bind(arena, machinery);
    const std::string name = concat("layers.", number_, ".");
    const std::int64_t heads = d_.H * d_.D;
    const catalogue::Biases biases = setup_.config.biases;
    const HasBias all = biases == catalogue::Biases::all ? HasBias::yes : HasBias::no;
    const HasBias attention = biases == catalogue::Biases::none ? HasBias::no : HasBias::yes;
    attention_norm_.bind(parameters, name + "attention_norm", setup_, *machinery.backend);
    query_key_value_ = bind_module(parameters, name + "attention.query_key_value",
                                   Shape{(d_.H + 2 * d_.G) * d_.D, d_.C}, attention);
    projection_ = bind_module(parameters, name + "attention.projection", Shape{d_.C, heads}, all);
    mlp_norm_.bind(parameters, name + "mlp_norm", setup_, *machinery.backend);
    up_ = bind_module(parameters, name + (gated() ? "mlp.gate_up" : "mlp.up"), Shape{up_width_, d_.C}, all);
    down_ = bind_module(parameters, name + "mlp.down", Shape{d_.C, d_.F}, all);
    rotary_table_ = arena.tensor(rotary_item_);
}

backend::Dropout TransformerLayer::dropout(backend::DropoutSite site, std::int64_t first_sample,
                                           Mode mode) const {
    backend::Dropout dropout;
    const bool inside_attention = site == backend::DropoutSite::attention_weights;
    if (mode == Mode::train)
        dropout.probability =
            inside_attention ? setup_.config.attention_dropout : setup_.config.hidden_dropout;
    dropout.seed = setup_.seed;
    dropout.site = site;
    dropout.layer = static_cast<std::int32_t>(number_);
    dropout.first_sample = first_sample;
    dropout.first_position = inside_attention ? 0 : d_.first_position;
    return dropout;
}

backend::Attention TransformerLayer::attention(const BatchMarks& batch, Mode mode) const {
    return {d_.H,
            d_.G,
            d_.D,
            d_.first_head,
            1 / std::sqrt(static_cast<double>(d_.D)),
            backend::Causal::yes,
            dropout(backend::DropoutSite::attention_weights, batch.first_sample, mode),
            batch.documents};
}

void TransformerLayer::rotate(const Tensor& query_key_value, const BatchMarks& batch,
                              backend::RotaryDirection direction) const {
    if (rotary_table_.defined())
        machinery_.backend->compute().rotary(query_key_value, d_.H + d_.G, rotary_table_, batch.positions, 0,
                                             direction);
}

Tensor TransformerLayer::packed_rows(const Tensor& query_key_value) const {
    return query_key_value.reshaped(Shape{d_.n, (d_.H + 2 * d_.G) * d_.D});
}

Tensor TransformerLayer::head_rows(const Tensor& heads) const {
    return heads.reshaped(Shape{d_.n, d_.H * d_.D});
}

void TransformerLayer::forward(const Tensor& input, const LayerActivations<Tensor>& kept,
                               const BatchMarks& batch, Mode mode, LayerOutput wanted, Tensor output) const {
    backend::Operations& ops = machinery_.backend->compute();

    attention_norm_.forward(input, kept.attention_norm, kept.attention_norm_mean, kept.attention_norm_rstd);
    region_.enter_by_rows(kept.attention_norm, [&](const Tensor& x, topology::Interval rows) {
        ops.linear_forward(x, query_key_value_.weight, query_key_value_.bias,
                           rows_of(packed_rows(kept.query_key_value), rows));
    });
    rotate(kept.query_key_value, batch, backend::RotaryDirection::forward);
    ops.attention_forward(kept.query_key_value, attention(batch, mode), kept.attention, kept.logsumexp);
    leave_to_residual(projection_, head_rows(kept.attention), input,
                      dropout(backend::DropoutSite::attention_output, batch.first_sample, mode),
                      kept.residual);

    mlp_norm_.forward(kept.residual, kept.mlp_norm, kept.mlp_norm_mean, kept.mlp_norm_rstd);
    forward_up(kept);
    if (wanted == LayerOutput::discarded)
        return;
    leave_to_residual(down_, kept.activated, kept.residual,
                      dropout(backend::DropoutSite::mlp_output, batch.first_sample, mode), output);
}

void TransformerLayer::forward_up(const LayerActivations<Tensor>& kept) const {
    backend::Operations& ops = machinery_.backend->compute();
    region_.enter_by_rows(kept.mlp_norm, [&](const Tensor& x, topology::Interval rows) {
        if (gated())
            ops.linear_forward(x, up_.weight, up_.bias, rows_of(kept.up, rows));
        else
            ops.linear_gelu_forward(x, up_.weight, up_.bias, rows_of(kept.up, rows),
                                    rows_of(kept.activated, rows));
    });
    if (gated())
        ops.swiglu_forward(kept.up, kept.activated);
}

void TransformerLayer::leave_to_residual(const Module& module, const Tensor& x, const Tensor& residual,
                                         const backend::Dropout& dropout, Tensor output) const {
    backend::Operations& ops = machinery_.backend->compute();
    if (machinery_.tensor->size() == 1 && dropout.probability == 0)
        return ops.linear_residual_forward(x, module.weight, module.bias, residual, output);
    const Tensor partial = region_.leave_from(output);
    ops.linear_forward(x, module.weight, {}, partial);
    region_.leave(partial, output);
    ops.bias_dropout_residual(output, module.bias, residual, dropout, output);
}

Tensor TransformerLayer::behind_dropout(const backend::Dropout& dropout, WeightsNow weights,
                                        const Tensor& grad, const Tensor& to) const {
    if (weights && dropout.probability == 0 && !region_.cuts_sequence())
        return grad.reshaped(Shape{d_.n, d_.C});
    machinery_.backend->compute().dropout_gradient(grad, dropout, region_.outside(to));
    return to.reshaped(Shape{d_.n, d_.C});
}

void TransformerLayer::norm_gradients(const Norm& norm, const Tensor& grad_y, const Tensor& x,
                                      const Tensor& mean, const Tensor& rstd, const Tensor& grad,
                                      WeightsNow weights) const {
    if (weights)
        norm.gradients(grad_y, x, mean, rstd, grad, GradWrite::accumulate, *weights);
    else
        norm.input_gradient(grad_y, x, mean, rstd, grad, GradWrite::accumulate);
}

void TransformerLayer::input_gradient(const Tensor& input, const LayerActivations<Tensor>& kept,
                                      WeightsNow weights, const BatchMarks& batch, Tensor grad,
                                      const LayerGradients<Tensor>& gradients) const {
    backend::Operations& ops = machinery_.backend->compute();
    TRIREME_ASSERT(weights || recomputed_ == kNoModules, "recomputed results do not last until later");

    if (recomputed_.norms)
        mlp_norm_.forward(kept.residual, kept.mlp_norm, kept.mlp_norm_mean, kept.mlp_norm_rstd);
    if (recomputed_.mlp)
        forward_up(kept);
    const Tensor down =
        behind_dropout(dropout(backend::DropoutSite::mlp_output, batch.first_sample, Mode::train), weights,
                       grad, gradients.down);
    region_.complete_by_rows(down, [&](const Tensor& grad_y, topology::Interval rows) {
        if (gated())
            ops.linear_input_gradient(grad_y, down_.weight, rows_of(gradients.activated, rows));
        else
            ops.linear_gelu_input_gradient(grad_y, down_.weight, rows_of(kept.up, rows),
                                           rows_of(gradients.up, rows));
    });
    // Beside the products that follow: the gather of what the weight gradient reads, and then the sum of the
    // input gradient.
    TensorRegion::Entry entered;
    if (weights)
        entered = region_.start_enter(kept.mlp_norm);
    if (gated())
        ops.swiglu_input_gradient(gradients.activated, kept.up, gradients.up);
    if (weights)
        down_weight_gradient(kept, down, *weights);
    ops.linear_input_gradient(gradients.up, up_.weight, gradients.mlp_norm);
    const Tensor mlp_norm = region_.outside(gradients.mlp_norm);
    const comm::Request mlp_sum = region_.start_leave(gradients.mlp_norm, mlp_norm);
    if (weights)
        weigh(up_, region_.finish(entered), gradients.up, *weights);
    region_.finish(mlp_sum);
    norm_gradients(mlp_norm_, mlp_norm, kept.residual, kept.mlp_norm_mean, kept.mlp_norm_rstd, grad, weights);

    const Tensor projection =
        behind_dropout(dropout(backend::DropoutSite::attention_output, batch.first_sample, Mode::train),
                       weights, grad, gradients.projection);
    region_.complete_by_rows(projection, [&](const Tensor& grad_y, topology::Interval rows) {
        ops.linear_input_gradient(grad_y, projection_.weight, rows_of(head_rows(gradients.attention), rows));
    });
    if (weights && !recomputed_.norms)
        entered = region_.start_enter(kept.attention_norm);
    const backend::Attention settings = attention(batch, Mode::train);
    if (recomputed_.core_attention)
        ops.attention_forward(kept.query_key_value, settings, kept.attention, kept.logsumexp);
    if (weights)
        projection_weight_gradient(kept, projection, *weights);
    ops.attention_input_gradient(gradients.attention, kept.query_key_value, kept.attention, kept.logsumexp,
                                 settings, gradients.query_key_value);
    rotate(gradients.query_key_value, batch, backend::RotaryDirection::backward);
    ops.linear_input_gradient(packed_rows(gradients.query_key_value), query_key_value_.weight,
                              gradients.attention_norm);
    const Tensor attention_norm = region_.outside(gradients.attention_norm);
    const comm::Request attention_sum = region_.start_leave(gradients.attention_norm, attention_norm);
    if (recomputed_.norms) {
        attention_norm_.forward(input, kept.attention_norm, kept.attention_norm_mean,
                                kept.attention_norm_rstd);
        entered = region_.start_enter(kept.attention_norm);
    }
    if (weights)
        weigh(query_key_value_, region_.finish(entered), packed_rows(gradients.query_key_value), *weights);
    region_.finish(attention_sum);
    norm_gradients(attention_norm_, attention_norm, input, kept.attention_norm_mean, kept.attention_norm_rstd,
                   grad, weights);
}

void TransformerLayer::weight_gradient(const Tensor& input, const LayerActivations<Tensor>& kept,
                                       const LayerGradients<Tensor>& gradients, GradWrite write) const {
    TensorRegion::Entry entered = region_.start_enter(kept.mlp_norm);
    down_weight_gradient(kept, gradients.down, write);
    weigh(up_, region_.finish(entered), gradients.up, write);
    entered = region_.start_enter(kept.attention_norm);
    mlp_norm_.weight_gradient(region_.outside(gradients.mlp_norm), kept.residual, kept.mlp_norm_mean,
                              kept.mlp_norm_rstd, write);
    projection_weight_gradient(kept, gradients.projection, write);
    weigh(query_key_value_, region_.finish(entered), packed_rows(gradients.query_key_value), write);
    attention_norm_.weight_gradient(region_.outside(gradients.attention_norm), input,
                                    kept.attention_norm_mean, kept.attention_norm_rstd, write);
}

void TransformerLayer::weigh(const Module& module, const Tensor& x, const Tensor& grad_y,
                             GradWrite write) const {
    weigh(module, x, grad_y, grad_y, write);
}

void TransformerLayer::weigh(const Module& module, const Tensor& x, const Tensor& grad_y,
                             const Tensor& seen_by_bias, GradWrite write) const {
    backend::Operations& ops = machinery_.backend->compute();
    ops.linear_weight_gradient(x, grad_y, module.grad_weight, write);
    if (module.bias.defined())
        ops.bias_gradient(seen_by_bias, module.grad_bias, write);
}

// The biases of down and projection are added outside: every tensor rank holds them whole and sees its part
// of the sequence.
void TransformerLayer::down_weight_gradient(const LayerActivations<Tensor>& kept, const Tensor& grad_down,
                                            GradWrite write) const {
    weigh(down_, kept.activated, grad_down, region_.outside(grad_down), write);
}

void TransformerLayer::projection_weight_gradient(const LayerActivations<Tensor>& kept,
                                                  const Tensor& grad_projection, GradWrite write) const {
    weigh(projection_, head_rows(kept.attention), grad_projection, region_.outside(grad_projection), write);
}

} // namespace trireme::model
