// One pre-norm transformer layer:
//
//     residual = input + dropout(projection(attention(query_key_value(norm(input)))))
//     output   = residual + dropout(down(gelu(up(norm(residual)))))
//
// The norm is LayerNorm or RMSNorm, gelu(up) may be silu(gate) * up, query and key may be rotated by
// position, and linear layers may lack biases, as the catalogue has them.
//
// query_key_value and up are column-parallel (their output is cut over tensor ranks, the gradient of their
// input is summed over them); projection and down are row-parallel (their output is summed over tensor ranks,
// their bias is added once, after). Letters as in Dimensions. What a pass keeps and what it needs for a while
// are planned here, by name.
#pragma once

#include <optional>
#include <string>

#include "module.hpp"
#include "tensor_region.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/stage_setup.hpp"

namespace trireme::model {

// What the forward pass of a layer leaves for its backward pass. T is memory::Item while planning, Tensor
// while running.
template <class T>
struct LayerActivations {
    T attention_norm_mean, attention_norm_rstd; // [ns] stat
    T attention_norm;                           // [Ts, B, C]
    T query_key_value;                          // [T, B, H + 2 G, D]
    T attention;                                // [T, B, H, D]
    T logsumexp;                                // [B, H, T] stat
    T residual;                                 // [Ts, B, C]
    T mlp_norm_mean, mlp_norm_rstd;             // [ns] stat
    T mlp_norm;                                 // [Ts, B, C]
    T up;                                       // [n, F], or gate and up [n, 2 F]
    T activated;                                // [n, F]
};

// Gradients of the outputs of a layer's modules: what weight gradients are made of. Those [T, B, C] belong
// inside tensor-parallel regions; what stands outside (norms, biases added after a region) reads its part of
// them.
template <class T>
struct LayerGradients {
    T attention_norm;  // [T, B, C]
    T query_key_value; // [T, B, H + 2 G, D]
    T attention;       // [T, B, H, D]
    T projection;      // [T, B, C]
    T mlp_norm;        // [T, B, C]
    T activated;       // [n, F]; with GELU where `up` is too
    T up;              // [n, F] or [n, 2 F]
    T down;            // [T, B, C]
};

// Whether the output of a layer is wanted: when its activations are only computed again, it is not.
enum class LayerOutput : std::uint8_t { wanted, discarded };
// How weight gradients are made within a backward pass; without a value apart, later.
using WeightsNow = std::optional<backend::GradWrite>;

class TransformerLayer {
  public:
    TransformerLayer(const StageSetup& setup, std::int64_t number); // global layer number

    // Plans one set of activations: for one micro-batch and layer from forward to backward pass, except for
    // modules that are recomputed, whose results all share; or all of it shared under `name`, where the layer
    // is recomputed as a whole.
    enum class Kept : std::uint8_t { for_backward, until_recomputed };
    LayerActivations<memory::Item> plan_activations(memory::Plan& plan, const std::string& name,
                                                    Kept kept) const;
    // Without `name` shared by all layers: a backward pass uses them up layer by layer. With it, kept until a
    // delayed weight gradient.
    LayerGradients<memory::Item> plan_gradients(memory::Plan& plan, const std::string& name) const;
    void plan_shared(memory::Plan& plan);
    // Fills what plan_shared() planned that a step only reads.
    void fill_shared() const;

    void bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery);

    // input, output [Ts, B, C].
    void forward(const Tensor& input, const LayerActivations<Tensor>& kept, const BatchMarks& batch,
                 Mode mode, LayerOutput wanted, Tensor output) const;
    // grad [Ts, B, C]: the gradient of the output becomes that of the input. With a value in `weights` the
    // main gradients of the layer's parameters are written or added to on the way, each right behind the
    // input gradient of its module, so that `grad` itself can serve where no dropout stands between;
    // otherwise `gradients` is filled for weight_gradient().
    // Modules that are recomputed are on the way, too.
    void input_gradient(const Tensor& input, const LayerActivations<Tensor>& kept, WeightsNow weights,
                        const BatchMarks& batch, Tensor grad, const LayerGradients<Tensor>& gradients) const;
    void weight_gradient(const Tensor& input, const LayerActivations<Tensor>& kept,
                         const LayerGradients<Tensor>& gradients, backend::GradWrite write) const;

  private:
    backend::Dropout dropout(backend::DropoutSite site, std::int64_t first_sample, Mode mode) const;
    backend::Attention attention(const BatchMarks& batch, Mode mode) const;

    // Where the gradient behind a dropout of the residual path is at hand, [n, C]: `grad` itself if that is
    // the same and may serve, else `to`, of which the part outside is filled.
    Tensor behind_dropout(const backend::Dropout& dropout, WeightsNow weights, const Tensor& grad,
                          const Tensor& to) const;
    // Of a norm: of its weights if `weights`, and of its input, added to `grad`, the residual path's.
    void norm_gradients(const Norm& norm, const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                        const Tensor& rstd, const Tensor& grad, WeightsNow weights) const;
    // output = residual + dropout(x W^T + bias), summed over tensor ranks.
    void leave_to_residual(const Module& module, const Tensor& x, const Tensor& residual,
                           const backend::Dropout& dropout, Tensor output) const;
    // Weight and bias gradient of a module; the bias may see a part of grad_y only.
    void weigh(const Module& module, const Tensor& x, const Tensor& grad_y, backend::GradWrite write) const;
    void weigh(const Module& module, const Tensor& x, const Tensor& grad_y, const Tensor& seen_by_bias,
               backend::GradWrite write) const;
    void down_weight_gradient(const LayerActivations<Tensor>& kept, const Tensor& grad_down,
                              backend::GradWrite write) const;
    void projection_weight_gradient(const LayerActivations<Tensor>& kept, const Tensor& grad_projection,
                                    backend::GradWrite write) const;
    // kept.up and kept.activated from kept.mlp_norm.
    void forward_up(const LayerActivations<Tensor>& kept) const;
    void rotate(const Tensor& query_key_value, const BatchMarks& batch,
                backend::RotaryDirection direction) const;
    bool gated() const { return setup_.config.activation == catalogue::Activation::swiglu; }
    Tensor packed_rows(const Tensor& query_key_value) const; // [n, (H + 2 G) D]
    Tensor head_rows(const Tensor& heads) const;             // [n, H D]

    StageSetup setup_;
    Dimensions d_;
    std::int64_t number_;
    RecomputedModules recomputed_;
    TensorRegion region_;
    Machinery machinery_;
    Norm attention_norm_, mlp_norm_;
    Module query_key_value_, projection_, up_, down_;
    std::int64_t up_width_; // F, or 2 F with a gate
    memory::Item rotary_item_;
    Tensor rotary_table_; // [P, R] stat, shared by all layers; undefined without rotation
};

LayerActivations<Tensor> bind(const memory::Arena& arena, const LayerActivations<memory::Item>& items);
LayerGradients<Tensor> bind(const memory::Arena& arena, const LayerGradients<memory::Item>& items);

} // namespace trireme::model
