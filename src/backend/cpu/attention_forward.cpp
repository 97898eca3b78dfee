// Attention without its T x T weights (Rabe and Staats 2021; Dao et al. 2022): a block of queries walks over
// the blocks of keys with a running maximum and sum per query; what was added to `out` under an older maximum
// is scaled down.
#include <cmath>
#include <limits>

#include "backend/cpu/attention_blocks.hpp"
#include "backend/cpu/dispatch.hpp"
#include "backend/cpu/dropout_mask.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/simd.hpp"

namespace trireme::backend {
namespace {

template <class T>
T row_maximum(const T* row, std::int64_t count, T most) {
    constexpr T kLowest = -std::numeric_limits<T>::infinity();
    simd::Vec<T> largest = simd::splat(most);
    simd::for_vectors<T>(count, [&](std::int64_t i, auto here) {
        largest = simd::maximum(simd::load_some(row + i, here, kLowest), largest);
    });
    return simd::maximum_of_lanes<T>(largest);
}

// row[i] = e^(row[i] - maximum); returns their sum.
template <class T>
T exponentials(T* row, std::int64_t count, T maximum) {
    simd::Vec<T> sum{};
    simd::for_vectors<T>(count, [&](std::int64_t i, auto here) {
        constexpr T kLowest = -std::numeric_limits<T>::infinity();
        const simd::Vec<T> weight = simd::exp(simd::load_some(row + i, here, kLowest) - maximum);
        sum += weight;
        simd::store_some<T>(row + i, weight, here);
    });
    return simd::sum_of_lanes<T>(sum);
}

template <class T>
struct ForwardBlock {
    const Attention& attention;
    std::int64_t length; // T
    HeadRows<const T> query, key, value;
    HeadRows<T> out;
    T* logsumexp; // [T] of this head
    DropoutMask mask;
    T *scores, *maxima, *sums; // [kQueryBlock, kKeyBlock], [kQueryBlock] twice

    // Queries [q0, q0 + nq).
    void compute(std::int64_t q0, std::int64_t nq) {
        std::fill_n(maxima, nq, -std::numeric_limits<T>::infinity());
        std::fill_n(sums, nq, T{0});
        const std::int64_t dim = attention.head_dim, end = key_end(attention.causal, length, q0 + nq);
        for (std::int64_t k0 = 0; k0 < end; k0 += kKeyBlock) {
            const std::int64_t nk = std::min(kKeyBlock, end - k0);
            gemm_serial<T>(nq, nk, dim, static_cast<T>(attention.scale), query.from(q0),
                           key.from(k0, Transpose::yes), T{0}, scores, kKeyBlock);
            for (std::int64_t i = 0; i < nq; ++i)
                weigh(i, q0 + i, k0, nk);
            gemm_serial<T>(nq, dim, nk, T{1}, {scores, kKeyBlock}, value.from(k0), k0 == 0 ? T{0} : T{1},
                           out.at(q0), out.stride);
        }
        for (std::int64_t i = 0; i < nq; ++i) {
            T* const row = out.at(q0 + i);
            const T inverse = T{1} / sums[i];
            for (std::int64_t d = 0; d < dim; ++d)
                row[d] *= inverse;
            logsumexp[q0 + i] = maxima[i] + std::log(sums[i]);
        }
    }

  private:
    // Row i of the block of scores becomes weights relative to the maximum so far.
    void weigh(std::int64_t i, std::int64_t q, std::int64_t k0, std::int64_t nk) {
        T* const row = scores + i * kKeyBlock;
        const std::int64_t visible = visible_keys(attention.causal, q, k0, nk);
        const T most = row_maximum(row, visible, maxima[i]);
        if (k0 > 0 && most != maxima[i]) {
            const T shrink = std::exp(maxima[i] - most);
            sums[i] *= shrink;
            for (std::int64_t d = 0; d < attention.head_dim; ++d)
                out.at(q)[d] *= shrink;
        }
        maxima[i] = most;
        sums[i] += exponentials(row, visible, most);
        std::fill(row + visible, row + nk, T{0});
        if (attention.dropout.probability >
            0) // the sum is that of all weights: dropout comes after the softmax
            mask.for_each<T>(q, k0, visible, [&](std::int64_t k, T multiplier) { row[k] *= multiplier; });
    }
};

} // namespace

void CpuOperations::do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                         Tensor logsumexp) {
    dispatch_float("attention_forward", qkv.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1], packed = qkv.shape()[2];
        const std::int64_t heads = attention.heads, groups = attention.groups, dim = attention.head_dim;
        const std::int64_t blocks = (length + kQueryBlock - 1) / kQueryBlock;
        constexpr std::int64_t kScores = kQueryBlock * kKeyBlock;
        scratch_.reserve((kScores + 2 * kQueryBlock) * static_cast<std::int64_t>(sizeof(T)));
        const T* const from = data<T>(qkv);
        T *const to = writable<T>(out), *const lse = writable<T>(logsumexp);
        pool_.parallel_for(batch * heads * blocks, 1, [&](std::int64_t task, std::int64_t, int worker) {
            // The last block of queries sees most keys: long tasks first.
            const std::int64_t block = blocks - 1 - task % blocks;
            const std::int64_t head = task / blocks % heads, b = task / blocks / heads;
            const std::int64_t group = head * groups / heads;
            const auto rows_of = [&](std::int64_t index) {
                return head_rows(from, batch, packed, dim, b, index);
            };
            T* const scratch = scratch_.of<T>(worker, 0, kScores + 2 * kQueryBlock).data();
            ForwardBlock<T> work{attention,
                                 length,
                                 rows_of(head),
                                 rows_of(heads + group),
                                 rows_of(heads + groups + group),
                                 head_rows(to, batch, heads, dim, b, head),
                                 lse + (b * heads + head) * length,
                                 DropoutMask(attention.dropout, b, attention.first_head + head),
                                 scratch,
                                 scratch + kScores,
                                 scratch + kScores + kQueryBlock};
            work.compute(block * kQueryBlock, std::min(kQueryBlock, length - block * kQueryBlock));
        });
    });
}

} // namespace trireme::backend
