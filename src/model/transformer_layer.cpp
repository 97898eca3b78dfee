// Forward, input gradient and weight gradient of a transformer layer, in operations of the backend.
#include "transformer_layer.hpp"

#include <cmath>

namespace trireme::model {

using backend::GradWrite;
using comm::ReduceOp;
using memory::Category;
using memory::Item;

TransformerLayer::TransformerLayer(const StageSetup& setup, std::int64_t number)
    : setup_(setup), d_(dimensions(setup)), number_(number) {}

LayerActivations<Item> TransformerLayer::plan_activations(memory::Plan& plan, const std::string& name,
                                                          Sharing sharing) const {
    const DType type = setup_.type, stat = statistics_type(type);
    const auto add = [&](const char* what, const Shape& shape, DType of, Sharing shared_from) {
        const std::string full = concat(name, " ", what);
        return sharing >= shared_from
                   ? plan.share(Category::activations, concat("recomputed ", full), shape, of)
                   : plan.add(Category::activations, full, shape, of);
    };
    const Shape tokens{d_.n}, hidden{d_.n, d_.C}, wide{d_.n, d_.F};
    LayerActivations<Item> items;
    items.attention_norm_mean = add("attention norm mean", tokens, stat, Sharing::all);
    items.attention_norm_rstd = add("attention norm rstd", tokens, stat, Sharing::all);
    items.attention_norm = add("attention norm", hidden, type, Sharing::all);
    items.query_key_value =
        add("query, key, value", Shape{d_.T, d_.B, d_.H + 2 * d_.G, d_.D}, type, Sharing::all);
    items.residual = add("residual", Shape{d_.T, d_.B, d_.C}, type, Sharing::all);
    items.mlp_norm_mean = add("mlp norm mean", tokens, stat, Sharing::all);
    items.mlp_norm_rstd = add("mlp norm rstd", tokens, stat, Sharing::all);
    items.mlp_norm = add("mlp norm", hidden, type, Sharing::all);
    items.up = add("mlp up", wide, type, Sharing::all);
    items.gelu = add("mlp gelu", wide, type, Sharing::all);

    const Shape attention{d_.T, d_.B, d_.H, d_.D}, logsumexp{d_.B, d_.H, d_.T};
    if (sharing == Sharing::attention_core) { // one for all layers and micro-batches
        items.attention = plan.share(Category::activations, "recomputed attention", attention, type);
        items.logsumexp =
            plan.share(Category::activations, "recomputed attention logsumexp", logsumexp, stat);
    } else {
        items.attention = add("attention", attention, type, Sharing::all);
        items.logsumexp = add("attention logsumexp", logsumexp, stat, Sharing::all);
    }
    return items;
}

LayerGradients<Item> TransformerLayer::plan_gradients(memory::Plan& plan) const {
    const auto share = [&](const char* what, const Shape& shape) {
        return plan.share(Category::activations, concat("gradient of ", what), shape, setup_.type);
    };
    const Shape sequence{d_.T, d_.B, d_.C}, hidden{d_.n, d_.C};
    return {share("attention norm", hidden),
            share("query, key, value", Shape{d_.T, d_.B, d_.H + 2 * d_.G, d_.D}),
            share("attention", Shape{d_.T, d_.B, d_.H, d_.D}),
            share("projection", sequence),
            share("mlp norm", hidden),
            share("mlp up", Shape{d_.n, d_.F}),
            share("mlp down", sequence)};
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
            at(items.gelu)};
}

LayerGradients<Tensor> bind(const memory::Arena& arena, const LayerGradients<Item>& items) {
    const auto at = [&](Item item) { return arena.tensor(item); };
    return {at(items.attention_norm),
            at(items.query_key_value),
            at(items.attention),
            at(items.projection),
            at(items.mlp_norm),
            at(items.up),
            at(items.down)};
}

void TransformerLayer::bind(const Parameters& parameters, const Machinery& machinery) {
    machinery_ = machinery;
    const std::string name = concat("layers.", number_, ".");
    const std::int64_t heads = d_.H * d_.D;
    attention_norm_ = bind_norm(parameters, name + "attention_norm", d_.C);
    query_key_value_ =
        bind_linear(parameters, name + "attention.query_key_value", (d_.H + 2 * d_.G) * d_.D, d_.C);
    projection_ = bind_linear(parameters, name + "attention.projection", d_.C, heads);
    mlp_norm_ = bind_norm(parameters, name + "mlp_norm", d_.C);
    up_ = bind_linear(parameters, name + "mlp.up", d_.F, d_.C);
    down_ = bind_linear(parameters, name + "mlp.down", d_.C, d_.F);
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
    return dropout;
}

backend::Attention TransformerLayer::attention(std::int64_t first_sample, Mode mode) const {
    return {d_.H,
            d_.G,
            d_.D,
            d_.first_head,
            1 / std::sqrt(static_cast<double>(d_.D)),
            backend::Causal::yes,
            dropout(backend::DropoutSite::attention_weights, first_sample, mode)};
}

void TransformerLayer::forward(const Tensor& input, const LayerActivations<Tensor>& kept,
                               std::int64_t first_sample, Mode mode, LayerOutput wanted,
                               Tensor output) const {
    backend::Operations& ops = machinery_.backend->compute();
    const Shape hidden{d_.n, d_.C};
    const double epsilon = setup_.config.norm_epsilon;

    ops.layer_norm_forward(input.reshaped(hidden), attention_norm_.weight, attention_norm_.bias, epsilon,
                           kept.attention_norm, kept.attention_norm_mean, kept.attention_norm_rstd);
    ops.linear_forward(kept.attention_norm, query_key_value_.weight, query_key_value_.bias,
                       kept.query_key_value.reshaped(Shape{d_.n, (d_.H + 2 * d_.G) * d_.D}));
    ops.attention_forward(kept.query_key_value, attention(first_sample, mode), kept.attention,
                          kept.logsumexp);
    ops.linear_forward(kept.attention.reshaped(Shape{d_.n, d_.H * d_.D}), projection_.weight, {},
                       kept.residual.reshaped(hidden));
    machinery_.tensor->all_reduce(kept.residual, ReduceOp::sum);
    ops.bias_dropout_residual(kept.residual, projection_.bias, input,
                              dropout(backend::DropoutSite::attention_output, first_sample, mode),
                              kept.residual);

    ops.layer_norm_forward(kept.residual.reshaped(hidden), mlp_norm_.weight, mlp_norm_.bias, epsilon,
                           kept.mlp_norm, kept.mlp_norm_mean, kept.mlp_norm_rstd);
    ops.linear_forward(kept.mlp_norm, up_.weight, up_.bias, kept.up);
    ops.gelu_forward(kept.up, kept.gelu);
    if (wanted == LayerOutput::discarded)
        return;
    ops.linear_forward(kept.gelu, down_.weight, {}, output.reshaped(hidden));
    machinery_.tensor->all_reduce(output, ReduceOp::sum);
    ops.bias_dropout_residual(output, down_.bias, kept.residual,
                              dropout(backend::DropoutSite::mlp_output, first_sample, mode), output);
}

void TransformerLayer::input_gradient(const Tensor& input, const LayerActivations<Tensor>& kept,
                                      AttentionCore core, std::int64_t first_sample, Tensor grad,
                                      const LayerGradients<Tensor>& gradients) const {
    backend::Operations& ops = machinery_.backend->compute();
    const Shape hidden{d_.n, d_.C};
    const Shape packed{d_.n, (d_.H + 2 * d_.G) * d_.D};

    ops.dropout_gradient(grad, dropout(backend::DropoutSite::mlp_output, first_sample, Mode::train),
                         gradients.down);
    ops.linear_input_gradient(gradients.down.reshaped(hidden), down_.weight, gradients.up);
    ops.gelu_input_gradient(gradients.up, kept.up, gradients.up);
    ops.linear_input_gradient(gradients.up, up_.weight, gradients.mlp_norm);
    machinery_.tensor->all_reduce(gradients.mlp_norm, ReduceOp::sum);
    ops.layer_norm_input_gradient(gradients.mlp_norm, kept.residual.reshaped(hidden), mlp_norm_.weight,
                                  kept.mlp_norm_mean, kept.mlp_norm_rstd, grad.reshaped(hidden),
                                  GradWrite::accumulate);

    ops.dropout_gradient(grad, dropout(backend::DropoutSite::attention_output, first_sample, Mode::train),
                         gradients.projection);
    ops.linear_input_gradient(gradients.projection.reshaped(hidden), projection_.weight,
                              gradients.attention.reshaped(Shape{d_.n, d_.H * d_.D}));
    const backend::Attention settings = attention(first_sample, Mode::train);
    if (core == AttentionCore::recomputed)
        ops.attention_forward(kept.query_key_value, settings, kept.attention, kept.logsumexp);
    ops.attention_input_gradient(gradients.attention, kept.query_key_value, kept.attention, kept.logsumexp,
                                 settings, gradients.query_key_value);
    ops.linear_input_gradient(gradients.query_key_value.reshaped(packed), query_key_value_.weight,
                              gradients.attention_norm);
    machinery_.tensor->all_reduce(gradients.attention_norm, ReduceOp::sum);
    ops.layer_norm_input_gradient(gradients.attention_norm, input.reshaped(hidden), attention_norm_.weight,
                                  kept.attention_norm_mean, kept.attention_norm_rstd, grad.reshaped(hidden),
                                  GradWrite::accumulate);
}

void TransformerLayer::weight_gradient(const Tensor& input, const LayerActivations<Tensor>& kept,
                                       const LayerGradients<Tensor>& gradients) const {
    backend::Operations& ops = machinery_.backend->compute();
    const Shape hidden{d_.n, d_.C};
    const auto linear = [&](const Module& module, const Tensor& x, const Tensor& grad_y) {
        ops.linear_weight_gradient(x, grad_y, module.grad_weight, GradWrite::accumulate);
        ops.bias_gradient(grad_y, module.grad_bias, GradWrite::accumulate);
    };
    linear(down_, kept.gelu, gradients.down.reshaped(hidden));
    linear(up_, kept.mlp_norm, gradients.up);
    ops.layer_norm_weight_gradient(gradients.mlp_norm, kept.residual.reshaped(hidden), kept.mlp_norm_mean,
                                   kept.mlp_norm_rstd, mlp_norm_.grad_weight, mlp_norm_.grad_bias,
                                   GradWrite::accumulate);
    linear(projection_, kept.attention.reshaped(Shape{d_.n, d_.H * d_.D}),
           gradients.projection.reshaped(hidden));
    linear(query_key_value_, kept.attention_norm,
           gradients.query_key_value.reshaped(Shape{d_.n, (d_.H + 2 * d_.G) * d_.D}));
    ops.layer_norm_weight_gradient(gradients.attention_norm, input.reshaped(hidden), kept.attention_norm_mean,
                                   kept.attention_norm_rstd, attention_norm_.grad_weight,
                                   attention_norm_.grad_bias, GradWrite::accumulate);
}

} // namespace trireme::model
