// Attention backward: the weights come back as P = e^(scores - logsumexp), block by block. With Z the dropout
// multipliers (0 or 1 / (1 - p)) and delta = sum over d of grad_out * out, for one head:
//     grad V = (P Z)^T grad_out        grad S = P (Z (grad_out V^T) - delta)
//     grad Q = scale grad S K          grad K = scale (grad S)^T Q
// A task is one row b and one group: it alone writes the group's keys and values, in a fixed order.
#include "backend/cpu/attention_blocks.hpp"
#include "backend/cpu/dispatch.hpp"
#include "backend/cpu/dropout_mask.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/simd.hpp"

namespace trireme::backend {
namespace {

template <class T>
struct GradientBlocks {
    const Attention& attention;
    std::int64_t length; // T
    HeadRows<const T> query, key, value, out, grad_out;
    HeadRows<T> grad_query, grad_key, grad_value;
    const T* logsumexp; // [T] of this head
    DropoutMask mask;
    T *weights, *grad_weights, *deltas; // [kQueryBlock, kKeyBlock] twice, [kQueryBlock]

    // All queries of one head; adds to grad_key and grad_value.
    void compute() {
        for (std::int64_t q0 = 0; q0 < length; q0 += kQueryBlock) {
            const std::int64_t nq = std::min(kQueryBlock, length - q0);
            for (std::int64_t i = 0; i < nq; ++i)
                deltas[i] = dot(grad_out.at(q0 + i), out.at(q0 + i));
            const std::int64_t end = key_end(attention.causal, length, q0 + nq);
            for (std::int64_t k0 = 0; k0 < end; k0 += kKeyBlock)
                block(q0, nq, k0, std::min(kKeyBlock, end - k0));
        }
    }

  private:
    void block(std::int64_t q0, std::int64_t nq, std::int64_t k0, std::int64_t nk) {
        const std::int64_t dim = attention.head_dim;
        const MatrixView<T> wt{weights, kKeyBlock, Transpose::yes};
        const MatrixView<T> g{grad_weights, kKeyBlock}, gt{grad_weights, kKeyBlock, Transpose::yes};
        gemm_serial<T>(nq, nk, dim, static_cast<T>(attention.scale), query.from(q0),
                       key.from(k0, Transpose::yes), T{0}, weights, kKeyBlock);
        gemm_serial<T>(nq, nk, dim, T{1}, grad_out.from(q0), value.from(k0, Transpose::yes), T{0},
                       grad_weights, kKeyBlock);
        for (std::int64_t i = 0; i < nq; ++i)
            row_gradient(i, q0 + i, k0, nk);
        gemm_serial<T>(nk, dim, nq, T{1}, wt, grad_out.from(q0), T{1}, grad_value.at(k0), grad_value.stride);
        gemm_serial<T>(nq, dim, nk, T{1}, g, key.from(k0), k0 == 0 ? T{0} : T{1}, grad_query.at(q0),
                       grad_query.stride);
        gemm_serial<T>(nk, dim, nq, T{1}, gt, query.from(q0), T{1}, grad_key.at(k0), grad_key.stride);
    }

    // Scores become P Z, grad_out V^T becomes scale * grad S.
    void row_gradient(std::int64_t i, std::int64_t q, std::int64_t k0, std::int64_t nk) {
        T *const w = weights + i * kKeyBlock, *const g = grad_weights + i * kKeyBlock;
        const std::int64_t visible = visible_keys(attention.causal, q, k0, nk);
        const T lse = logsumexp[q], delta = deltas[i], scale = static_cast<T>(attention.scale);
        simd::for_vectors<T>(visible, [&](std::int64_t k, auto count) {
            simd::store_some<T>(w + k, simd::exp(simd::load_some(w + k, count) - lse), count);
        });
        if (attention.dropout.probability > 0)
            mask.for_each<T>(q, k0, visible, [&](std::int64_t k, T multiplier) {
                g[k] = scale * w[k] * (multiplier * g[k] - delta);
                w[k] *= multiplier;
            });
        else
            for (std::int64_t k = 0; k < visible; ++k)
                g[k] = scale * w[k] * (g[k] - delta);
        std::fill(w + visible, w + nk, T{0});
        std::fill(g + visible, g + nk, T{0});
    }

    T dot(const T* a, const T* b) const {
        simd::Vec<T> sum{};
        simd::for_vectors<T>(attention.head_dim, [&](std::int64_t i, auto count) {
            sum += simd::load_some(a + i, count) * simd::load_some(b + i, count);
        });
        return simd::sum_of_lanes<T>(sum);
    }
};

} // namespace

void CpuOperations::do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                                const Tensor& logsumexp, const Attention& attention,
                                                Tensor grad_qkv) {
    dispatch_float("attention_input_gradient", qkv.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1], packed = qkv.shape()[2];
        const std::int64_t heads = attention.heads, groups = attention.groups, dim = attention.head_dim;
        constexpr std::int64_t kScores = kQueryBlock * kKeyBlock, kScratch = 2 * kScores + kQueryBlock;
        scratch_.reserve(kScratch * static_cast<std::int64_t>(sizeof(T)));
        const T *const from = data<T>(qkv), *const result = data<T>(out), *const grad = data<T>(grad_out);
        const T* const lse = data<T>(logsumexp);
        T* const to = writable<T>(grad_qkv);
        pool_.parallel_for(batch * groups, 1, [&](std::int64_t task, std::int64_t, int worker) {
            const std::int64_t b = task / groups, group = task % groups;
            const auto in = [&](std::int64_t index) { return head_rows(from, batch, packed, dim, b, index); };
            const auto in_gradient = [&](std::int64_t index) {
                return head_rows(to, batch, packed, dim, b, index);
            };
            const HeadRows<T> grad_key = in_gradient(heads + group),
                              grad_value = in_gradient(heads + groups + group);
            for (std::int64_t t = 0; t < length; ++t) {
                std::fill_n(grad_key.at(t), dim, T{0});
                std::fill_n(grad_value.at(t), dim, T{0});
            }
            T* const scratch = scratch_.of<T>(worker, 0, kScratch).data();
            const std::int64_t shared_by = heads / groups;
            for (std::int64_t head = group * shared_by; head < (group + 1) * shared_by; ++head) {
                GradientBlocks<T> work{attention,
                                       length,
                                       in(head),
                                       in(heads + group),
                                       in(heads + groups + group),
                                       head_rows(result, batch, heads, dim, b, head),
                                       head_rows(grad, batch, heads, dim, b, head),
                                       in_gradient(head),
                                       grad_key,
                                       grad_value,
                                       lse + (b * heads + head) * length,
                                       DropoutMask(attention.dropout, b, attention.first_head + head),
                                       scratch,
                                       scratch + kScores,
                                       scratch + 2 * kScores};
                work.compute();
            }
        });
    });
}

} // namespace trireme::backend
