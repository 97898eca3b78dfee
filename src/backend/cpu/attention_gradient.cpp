// Attention backward: the weights come back as P = e^(scores - logsumexp), block by block. With Z the dropout
// multipliers (0 or 1 / (1 - p)) and delta = sum over d of grad_out * out, for one head:
//     grad V = (P Z)^T grad_out        grad S = P (Z (grad_out V^T) - delta)
//     grad Q = scale grad S K          grad K = scale (grad S)^T Q
// A task is one row b and one group: it alone writes the group's keys and values, in a fixed order.
#include "backend/cpu/attention_blocks.hpp"
#include "backend/cpu/dropout_mask.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/scratch_needs.hpp"

namespace trireme::backend {
namespace {

// What a task keeps in scratch. The buffers of the second half hold bf16 operands and sums widened to fp32
// and are empty where kInPlace.
template <class S>
struct GradientScratch {
    using T = Wide<S>;
    T *weights, *grad_weights, *deltas;         // [kQueryBlock, kKeyBlock] twice, [kQueryBlock]
    T *queries, *grad_outs, *grad_queries;      // [kQueryBlock, D]
    T *keys, *values, *grad_keys, *grad_values; // [T, D]

    static std::int64_t elements(std::int64_t length, std::int64_t dim) {
        return kQueryBlock * (2 * kKeyBlock + 1) + (kInPlace<S> ? 0 : (3 * kQueryBlock + 4 * length) * dim);
    }
    GradientScratch(T* memory, std::int64_t length, std::int64_t dim) {
        Pieces<T> pieces{memory};
        const std::int64_t widened = kInPlace<S> ? 0 : dim;
        weights = pieces.take(kQueryBlock * kKeyBlock);
        grad_weights = pieces.take(kQueryBlock * kKeyBlock);
        deltas = pieces.take(kQueryBlock);
        for (T** buffer : {&queries, &grad_outs, &grad_queries})
            *buffer = pieces.take(kQueryBlock * widened);
        for (T** buffer : {&keys, &values, &grad_keys, &grad_values})
            *buffer = pieces.take(length * widened);
    }
};

template <class S>
struct GradientBlocks {
    using T = Wide<S>;
    const Attention& attention;
    std::int64_t length; // T
    VisibleKeys visible;
    HeadRows<const S> query, out, grad_out;
    HeadRows<S> grad_query;
    HeadRows<const T> key, value;     // of the group
    HeadRows<T> grad_key, grad_value; // likewise; added to
    const T* logsumexp;               // [T] of this head
    DropoutMask mask;
    GradientScratch<S> scratch;

    // All queries of one head.
    void compute() {
        const std::int64_t dim = attention.head_dim;
        for (std::int64_t q0 = 0; q0 < length; q0 += kQueryBlock) {
            const std::int64_t nq = std::min(kQueryBlock, length - q0);
            for (std::int64_t i = 0; i < nq; ++i)
                scratch.deltas[i] = dot(grad_out.at(q0 + i), out.at(q0 + i));
            const QueryBlock block{q0, nq, operand<S>(query, q0, nq, dim, scratch.queries),
                                   operand<S>(grad_out, q0, nq, dim, scratch.grad_outs),
                                   sums<S>(grad_query, q0, dim, scratch.grad_queries)};
            const KeyRange range = visible.of_block(q0, nq);
            for (std::int64_t k0 = range.begin; k0 < range.end; k0 += kKeyBlock)
                add_block(block, k0, std::min(kKeyBlock, range.end - k0),
                          k0 == range.begin ? GradWrite::overwrite : GradWrite::accumulate);
            write_back<S>(block.grad_query, grad_query, q0, nq, dim);
        }
    }

  private:
    struct QueryBlock {
        std::int64_t first, count;
        HeadRows<const T> query, grad_out;
        HeadRows<T> grad_query;
    };

    void add_block(const QueryBlock& q, std::int64_t k0, std::int64_t nk, GradWrite write) {
        const std::int64_t dim = attention.head_dim, nq = q.count;
        const HeadRows<const T> k{key.at(k0), key.stride}, v{value.at(k0), value.stride};
        T *const w = scratch.weights, *const g = scratch.grad_weights;
        gemm_serial<T>(nq, nk, dim, static_cast<T>(attention.scale), matrix(q.query),
                       matrix(k, Transpose::yes), T{0}, w, kKeyBlock);
        gemm_serial<T>(nq, nk, dim, T{1}, matrix(q.grad_out), matrix(v, Transpose::yes), T{0}, g, kKeyBlock);
        for (std::int64_t i = 0; i < nq; ++i)
            row_gradient(i, q.first + i, k0, nk);
        gemm_serial<T>(nk, dim, nq, T{1}, {w, kKeyBlock, Transpose::yes}, matrix(q.grad_out), T{1},
                       grad_value.at(k0), grad_value.stride);
        gemm_serial<T>(nq, dim, nk, T{1}, {g, kKeyBlock}, matrix(k),
                       write == GradWrite::overwrite ? T{0} : T{1}, q.grad_query.data, q.grad_query.stride);
        gemm_serial<T>(nk, dim, nq, T{1}, {g, kKeyBlock, Transpose::yes}, matrix(q.query), T{1},
                       grad_key.at(k0), grad_key.stride);
    }

    // Scores become P Z, grad_out V^T becomes scale * grad S.
    void row_gradient(std::int64_t i, std::int64_t q, std::int64_t k0, std::int64_t nk) {
        T *const w = scratch.weights + i * kKeyBlock, *const g = scratch.grad_weights + i * kKeyBlock;
        const auto [begin, end] = visible.within(q, k0, nk);
        const T lse = logsumexp[q], delta = scratch.deltas[i], scale = static_cast<T>(attention.scale);
        T* const seen = w + begin;
        simd::for_vectors<T>(end - begin, [&](std::int64_t k, auto count) {
            simd::store_some<T>(seen + k, simd::exp(simd::load_some(seen + k, count) - lse), count);
        });
        std::fill(w, w + begin, T{0});
        std::fill(w + end, w + nk, T{0});
        if (attention.dropout.probability > 0)
            mask.for_each<T>(q, k0, end, [&](std::int64_t k, T multiplier) {
                g[k] = scale * w[k] * (multiplier * g[k] - delta);
                w[k] *= multiplier;
            });
        else
            for (std::int64_t k = begin; k < end; ++k)
                g[k] = scale * w[k] * (g[k] - delta);
        std::fill(g, g + begin, T{0});
        std::fill(g + end, g + nk, T{0});
    }

    T dot(const S* a, const S* b) const {
        simd::Vec<T> sum{};
        simd::for_vectors<T>(attention.head_dim, [&](std::int64_t i, auto count) {
            sum += simd::load_some(a + i, count) * simd::load_some(b + i, count);
        });
        return simd::sum_of_lanes<T>(sum);
    }
};

} // namespace

std::int64_t attention_gradient_scratch_bytes(DType type, std::int64_t length, std::int64_t dim) {
    std::int64_t bytes = 0;
    dispatch_stored("attention_input_gradient", type, [&](auto zero) {
        using S = decltype(zero);
        bytes = GradientScratch<S>::elements(length, dim) * static_cast<std::int64_t>(sizeof(Wide<S>));
    });
    return bytes;
}

void CpuOperations::do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                                const Tensor& logsumexp, const Attention& attention,
                                                Tensor grad_qkv) {
    check_documents(attention.documents);
    dispatch_stored("attention_input_gradient", qkv.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1], packed = qkv.shape()[2];
        const std::int64_t heads = attention.heads, groups = attention.groups, dim = attention.head_dim;
        const std::int64_t elements = GradientScratch<S>::elements(length, dim);
        scratch_.reserve(attention_gradient_scratch_bytes(qkv.type(), length, dim));
        const S *const from = data<S>(qkv), *const result = data<S>(out), *const grad = data<S>(grad_out);
        const T* const lse = data<T>(logsumexp);
        S* const to = writable<S>(grad_qkv);
        pool_.parallel_for(batch * groups, 1, [&](std::int64_t task, std::int64_t, int worker) {
            const std::int64_t b = task / groups, group = task % groups;
            const auto in = [&](std::int64_t index) { return head_rows(from, batch, packed, dim, b, index); };
            const auto in_gradient = [&](std::int64_t index) {
                return head_rows(to, batch, packed, dim, b, index);
            };
            const GradientScratch<S> scratch(scratch_.of<T>(worker, 0, elements).data(), length, dim);
            const HeadRows<S> key_rows = in_gradient(heads + group),
                              value_rows = in_gradient(heads + groups + group);
            const HeadRows<T> grad_key = sums<S>(key_rows, 0, dim, scratch.grad_keys),
                              grad_value = sums<S>(value_rows, 0, dim, scratch.grad_values);
            for (std::int64_t t = 0; t < length; ++t) {
                std::fill_n(grad_key.at(t), dim, T{0});
                std::fill_n(grad_value.at(t), dim, T{0});
            }
            const auto key = operand<S>(in(heads + group), 0, length, dim, scratch.keys),
                       value = operand<S>(in(heads + groups + group), 0, length, dim, scratch.values);
            const std::int64_t shared_by = heads / groups;
            for (std::int64_t head = group * shared_by; head < (group + 1) * shared_by; ++head) {
                GradientBlocks<S> work{attention,
                                       length,
                                       VisibleKeys(attention, length, batch, b),
                                       in(head),
                                       head_rows(result, batch, heads, dim, b, head),
                                       head_rows(grad, batch, heads, dim, b, head),
                                       in_gradient(head),
                                       key,
                                       value,
                                       grad_key,
                                       grad_value,
                                       lse + (b * heads + head) * length,
                                       DropoutMask(attention.dropout, b, attention.first_head + head),
                                       scratch};
                work.compute();
            }
            write_back<S>(grad_key, key_rows, 0, length, dim);
            write_back<S>(grad_value, value_rows, 0, length, dim);
        });
    });
}

} // namespace trireme::backend
