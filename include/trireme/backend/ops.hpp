// The whole arithmetic of GPT on one page. Each operation stands once, with shapes; input gradient and weight
// gradient are separate. The public functions check shapes and types and then call a private virtual of the
// same name with do_ in front, which the CPU and the CUDA backend override.
//
// Letters: T sequence, B micro-batch, n = T * B tokens (t-major), C hidden, F width, H query heads, G
// key/value groups, D head dimension, V vocabulary rows held here. "act" is the activation type (weights have
// it too), "main" the type of main gradients, "stat" statistics_type(act). Gradients of weights are written
// or added (GradWrite) in "main". Sums over tokens run in a fixed order whatever the number of threads: the
// same inputs give the same bits.
#pragma once

#include <cstdint>

#include "trireme/tensor/tensor.hpp"

namespace trireme::backend {

enum class GradWrite : std::uint8_t { overwrite, accumulate };
enum class Causal : std::uint8_t { no, yes };
enum class RotaryDirection : std::uint8_t { forward, backward };

// Where in the model a dropout stands: part of the counter, so that no two draw the same numbers.
enum class DropoutSite : std::uint8_t {
    embedding = 0,
    attention_weights = 1,
    attention_output = 2,
    mlp_output = 3
};

// One dropout mask, as a pure function of logical positions. An element is kept iff its word w < 2^32 * (1 -
// probability) (rounded to nearest), and scaled by 1 / (1 - probability). Hidden states, element (t, b, c):
// word c % 4 of philox4x32({c / 4, first_position + t, site << 28 | layer << 16, s}, key). Attention weights,
// element (b, h, query, key position): word k % 4 of philox4x32({k / 4, query, site << 28 | layer << 16 |
// (first_head + h), s}, key). s is the low word of the consumed-sample number first_sample + b; its high word
// is added to key[1]; key is philox_key(seed, RandomDomain::dropout).
struct Dropout {
    double probability = 0; // 0: no dropout, nothing is drawn
    std::uint64_t seed = 0;
    DropoutSite site = DropoutSite::embedding;
    std::int32_t layer = 0;          // global number, below 4096
    std::int64_t first_sample = 0;   // of row b = 0; row b is sample first_sample + b
    std::int64_t first_position = 0; // global position of t = 0 (sequence parallelism)
};

struct Attention {
    std::int64_t heads = 0;      // H, held here
    std::int64_t groups = 0;     // G, held here; H % G == 0
    std::int64_t head_dim = 0;   // D
    std::int64_t first_head = 0; // global number of head 0 (for dropout)
    double scale = 0;            // of the scores, usually 1 / sqrt(D)
    Causal causal = Causal::yes;
    Dropout dropout;
    // [T, B] i32 or undefined: the first position of the document that position t of row b belongs to. A
    // query then sees keys of its own document only. Needs Causal::yes; documents(t) <= t, and never less
    // than documents(t - 1).
    Tensor documents = {};
};

// AdamW as in Loshchilov and Hutter (2019): m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
// w -= lr * (mhat / (sqrt(vhat) + eps) + decay * w), mhat = m / (1 - b1^step), vhat = v / (1 - b2^step).
struct Adam {
    double learning_rate = 0;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;
    std::int64_t step = 1; // counts good steps from 1
};

// Of the factor that gradients of a step are multiplied by.
struct FactorRule {
    double scale = 1;     // before clipping
    double clip_norm = 0; // of their norm after that; 0: no clipping
};

// Main gradients of a norm's weights.
struct NormWeightGradients {
    Tensor weight, bias; // [C]; bias of layer norm only
    GradWrite write = GradWrite::overwrite;
};

class Operations {
  public:
    virtual ~Operations() = default;

    // --- elementwise
    // ------------------------------------------------------------------------------------------------
    void fill(Tensor x, double value);
    void copy(const Tensor& from, Tensor to); // same elements; converts the type
    void add(const Tensor& x, Tensor y);      // y += x, x may be of another float type
    void scale(Tensor x, double factor);      // x *= factor

    // --- embedding
    // --------------------------------------------------------------------------------------------------
    // tokens [T, B] i32, table [V, C] act: rows first_row ... first_row + V - 1 of the whole table. out [T,
    // B, C] act. A token outside these rows gives zeros (the sum over tensor ranks is the embedding).
    void embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row, Tensor out);
    // grad_out [T, B, C]; grad_table [V, C] main is added to.
    void embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out, std::int64_t first_row,
                                   Tensor grad_table);
    // x [T, B, C] += table[first_position + t]; table [P, C].
    void position_forward(const Tensor& table, std::int64_t first_position, Tensor x);
    void position_weight_gradient(const Tensor& grad_out, std::int64_t first_position, Tensor grad_table);
    // The same where each token brings its position, positions [T, B] i32 in [0, P): x [T, B, C] +=
    // table[position].
    void position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x);
    // grad_table [P, C] main is added to.
    void position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions, Tensor grad_table);

    // --- linear: y = x W^T + bias
    // ------------------------------------------------------------------------------------- x [n, in], weight
    // [out, in], bias [out] or undefined, y [n, out].
    void linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y);
    // grad_y [n, out], weight [out, in], grad_x [n, in].
    void linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x);
    // With GELU behind it, in one pass where the device can: inner = x W^T + bias, y = gelu(inner), both [n,
    // out]; and grad_inner = (grad_y W) * gelu'(inner) for the layer after it: grad_y [n, out], weight [out,
    // in], inner, grad_inner [n, in].
    void linear_gelu_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor inner,
                             Tensor y);
    void linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight, const Tensor& inner,
                                    Tensor grad_inner);
    // With the residual path behind it, in one pass where the device can: y = residual + (x W^T + bias);
    // residual [n, out] is not y.
    void linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& residual, Tensor y);
    // x [n, in], grad_y [n, out], grad_weight [out, in] main.
    void linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight, GradWrite write);
    // grad_y [n, out], grad_bias [out] main: column sums.
    void bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write);

    // --- layer norm over the last axis (Ba, Kiros, Hinton 2016)
    // -------------------------------------------------------- x, y [n, C] act; weight, bias [C]; mean, rstd
    // [n] stat: rstd = 1 / sqrt(variance + epsilon).
    void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                            Tensor y, Tensor mean, Tensor rstd);
    // grad_x is written or added to (the residual's gradient).
    void layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                   const Tensor& mean, const Tensor& rstd, Tensor grad_x, GradWrite write);
    void layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                    const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                    GradWrite write);
    // Both, in one pass where the device can; grad_x is neither grad_y nor x.
    void layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, Tensor grad_x, GradWrite write,
                              const NormWeightGradients& of_weights);

    // --- RMS norm over the last axis (Zhang and Sennrich 2019)
    // ---------------------------------------------------------- x, y [n, C] act; weight [C]; rstd [n] stat:
    // 1 / sqrt(mean of x^2 + epsilon). y = x * rstd * weight.
    void rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y, Tensor rstd);
    // grad_x is written or added to (the residual's gradient).
    void rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                 const Tensor& rstd, Tensor grad_x, GradWrite write);
    void rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                  Tensor grad_weight, GradWrite write);
    // Both, in one pass where the device can; grad_x is neither grad_y nor x.
    void rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            Tensor grad_x, GradWrite write, const NormWeightGradients& of_weights);

    // --- GELU, tanh form (Hendrycks and Gimpel 2016)
    // --------------------------------------------------------------------
    void gelu_forward(const Tensor& x, Tensor y);
    void gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x); // grad_x may be grad_y

    // --- SwiGLU (Shazeer 2020)
    // ------------------------------------------------------------------------------------------ gate_up [n,
    // 2 F]: in each row F gates, then F ups. y [n, F] = silu(gate) * up, silu(g) = g / (1 + e^-g).
    void swiglu_forward(const Tensor& gate_up, Tensor y);
    // grad_y [n, F]; grad_gate_up [n, 2 F] must be neither of the others.
    void swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up, Tensor grad_gate_up);

    // --- rotary position embedding (Su et al. 2021)
    // ----------------------------------------------------------------------- qkv [T, B, H + 2 G, D] in
    // place; heads = H + G, the query and key heads, are turned, the rest is left alone. table [P, R] stat, R
    // even and <= D: row p holds the cosines of p's R/2 angles, then their sines (catalogue/rotary.hpp fills
    // it). positions [T, B] i32 in [0, P), or undefined: first_position + t. Dimensions i and i + R/2, i <
    // R/2, become (x cos - y sin, y cos + x sin); R ... D - 1 stay. backward turns a gradient by the opposite
    // angle.
    void rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                std::int64_t first_position, RotaryDirection direction);

    // --- attention
    // ------------------------------------------------------------------------------------------------------
    // qkv [T, B, H + 2 G, D]: H query heads, then G key heads, then G value heads; query head h reads group h
    // * G / H. out [T, B, H, D]; logsumexp [B, H, T] stat: of the scaled scores of a query. The T x T weights
    // are never stored.
    void attention_forward(const Tensor& qkv, const Attention& attention, Tensor out, Tensor logsumexp);
    // grad_out, out [T, B, H, D]; grad_qkv [T, B, H + 2 G, D]. Weights are recomputed from logsumexp, dropout
    // redrawn.
    void attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                  const Tensor& logsumexp, const Attention& attention, Tensor grad_qkv);

    // --- dropout and residual
    // ------------------------------------------------------------------------------------------- out =
    // residual + dropout(x + bias): all [T, B, C]; bias [C] or undefined; residual may be undefined (zero)
    // and may be out; x may be out.
    void bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                               const Dropout& dropout, Tensor out);
    // grad_x = mask * grad_out / (1 - p), [T, B, C].
    void dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x);

    // --- vocabulary-parallel cross-entropy (logits are never gathered)
    // ---------------------------------------------------- logits [n, V] act: columns are rows first_row ...
    // of the vocabulary; columns from valid_columns on are padding and take no part. maximum [n] stat (then
    // reduced with max over tensor ranks).
    void cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns, Tensor maximum);
    // sums [2, n] stat: sum of exp(logit - maximum), and (logit - maximum) of the target or 0 if another rank
    // has it (both then summed over tensor ranks). targets [n] i32.
    void cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns, const Tensor& targets,
                            std::int64_t first_row, const Tensor& maximum, Tensor sums);
    // loss [1] stat += sum over tokens of mask * (log(sums[0]) - sums[1]); mask [n] stat or undefined (ones).
    void cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss);
    // logits become their gradient in place: factor * mask * (softmax - one at the target); padding columns
    // become 0.
    void cross_entropy_gradient(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                std::int64_t first_row, const Tensor& maximum, const Tensor& sums,
                                const Tensor& mask, double factor);
    // All four at once where this rank holds the whole vocabulary: maximum, sums and loss as above, and the
    // logits become their gradient. A device may read them only once.
    void cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets, const Tensor& mask,
                       double factor, Tensor maximum, Tensor sums, Tensor loss);

    // --- optimizer
    // ----------------------------------------------------------------------------------------------------------
    // result [1] f64 = or += sum of x^2, accumulated in f64.
    void sum_of_squares(const Tensor& x, Tensor result, GradWrite write);
    // factor [1] f64 = what adam_update multiplies gradients by: scale, and less where their norm, scale *
    // sqrt(squared_norm), is beyond clip_norm; NaN where the norm is not finite. squared_norm [1] f64.
    void update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor);
    // master, moment1, moment2 [k] stat-like (fp32 or fp64); gradient [k] main; weights [k] act, undefined if
    // they are the master weights. An int16 `master` holds what fp32 master weights have beyond bf16
    // `weights` (SplitFloat): the update is that of the whole, bit for bit. factor [1] f64 in device memory
    // multiplies the gradient (finalisation and clipping); if it is not finite nothing is changed.
    void adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2, Tensor weights,
                     const Tensor& factor, const Adam& adam);

  protected:
    // What the fused operations are made of unless a device overrides them.
    virtual void do_linear_gelu_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        Tensor inner, Tensor y);
    virtual void do_linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight,
                                               const Tensor& inner, Tensor grad_inner);
    virtual void do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                            const Tensor& residual, Tensor y);
    virtual void do_layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                         const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                         GradWrite write, const NormWeightGradients& of_weights);
    virtual void do_rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                       const Tensor& rstd, Tensor grad_x, GradWrite write,
                                       const NormWeightGradients& of_weights);
    virtual void do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                  const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                                  Tensor loss);

  private:
    virtual void do_fill(Tensor x, double value) = 0;
    virtual void do_copy(const Tensor& from, Tensor to) = 0;
    virtual void do_add(const Tensor& x, Tensor y) = 0;
    virtual void do_scale(Tensor x, double factor) = 0;
    virtual void do_embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row,
                                      Tensor out) = 0;
    virtual void do_embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out,
                                              std::int64_t first_row, Tensor grad_table) = 0;
    virtual void do_position_forward(const Tensor& table, std::int64_t first_position, Tensor x) = 0;
    virtual void do_position_weight_gradient(const Tensor& grad_out, std::int64_t first_position,
                                             Tensor grad_table) = 0;
    virtual void do_position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x) = 0;
    virtual void do_position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                                    Tensor grad_table) = 0;
    virtual void do_linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) = 0;
    virtual void do_linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x) = 0;
    virtual void do_linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                           GradWrite write) = 0;
    virtual void do_bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write) = 0;
    virtual void do_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       double epsilon, Tensor y, Tensor mean, Tensor rstd) = 0;
    virtual void do_layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                              const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                              GradWrite write) = 0;
    virtual void do_layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                               const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                               GradWrite write) = 0;
    virtual void do_rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y,
                                     Tensor rstd) = 0;
    virtual void do_rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                            const Tensor& rstd, Tensor grad_x, GradWrite write) = 0;
    virtual void do_rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                             Tensor grad_weight, GradWrite write) = 0;
    virtual void do_swiglu_forward(const Tensor& gate_up, Tensor y) = 0;
    virtual void do_swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up,
                                          Tensor grad_gate_up) = 0;
    virtual void do_rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                           std::int64_t first_position, RotaryDirection direction) = 0;
    virtual void do_gelu_forward(const Tensor& x, Tensor y) = 0;
    virtual void do_gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) = 0;
    virtual void do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                      Tensor logsumexp) = 0;
    virtual void do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                             const Tensor& logsumexp, const Attention& attention,
                                             Tensor grad_qkv) = 0;
    virtual void do_bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                          const Dropout& dropout, Tensor out) = 0;
    virtual void do_dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x) = 0;
    virtual void do_cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns,
                                          Tensor maximum) = 0;
    virtual void do_cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns,
                                       const Tensor& targets, std::int64_t first_row, const Tensor& maximum,
                                       Tensor sums) = 0;
    virtual void do_cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) = 0;
    virtual void do_cross_entropy_gradient(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                           std::int64_t first_row, const Tensor& maximum, const Tensor& sums,
                                           const Tensor& mask, double factor) = 0;
    virtual void do_sum_of_squares(const Tensor& x, Tensor result, GradWrite write) = 0;
    virtual void do_update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor) = 0;
    virtual void do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                                Tensor weights, const Tensor& factor, const Adam& adam) = 0;
};

} // namespace trireme::backend
