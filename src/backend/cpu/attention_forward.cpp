// Attention without its T x T weights (Rabe and Staats 2021; Dao et al. 2022): a block of queries walks over
// the blocks of keys with a running maximum and sum per query; what was added to `out` under an older maximum
// is scaled down.
#include <cmath>
#include <limits>

#include "backend/cpu/attention_blocks.hpp"
#include "backend/cpu/dropout_mask.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/scratch_needs.hpp"

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

template <class S>
struct ForwardBlock {
    using T = Wide<S>;
    const Attention& attention;
    VisibleKeys visible;
    HeadRows<const S> query, key, value;
    HeadRows<S> out;
    T* logsumexp; // [T] of this head
    DropoutMask mask;
    T *scores, *maxima, *totals;           // [kQueryBlock, kKeyBlock], [kQueryBlock] twice
    T *queries, *keys, *values, *out_sums; // [kQueryBlock or kKeyBlock, D], unused where kInPlace
    HeadRows<T> result{};                  // out, or out_sums, from the block's first query on

    static std::int64_t scratch_elements(std::int64_t dim) {
        return kQueryBlock * (kKeyBlock + 2) + (kInPlace<S> ? 0 : 2 * (kQueryBlock + kKeyBlock) * dim);
    }

    // Queries [q0, q0 + nq).
    void compute(std::int64_t q0, std::int64_t nq) {
        std::fill_n(maxima, nq, -std::numeric_limits<T>::infinity());
        std::fill_n(totals, nq, T{0});
        const std::int64_t dim = attention.head_dim;
        const KeyRange range = visible.of_block(q0, nq);
        const HeadRows<const T> q = operand<S>(query, q0, nq, dim, queries);
        result = sums<S>(out, q0, dim, out_sums);
        for (std::int64_t k0 = range.begin; k0 < range.end; k0 += kKeyBlock) {
            const std::int64_t nk = std::min(kKeyBlock, range.end - k0);
            const HeadRows<const T> k = operand<S>(key, k0, nk, dim, keys);
            const HeadRows<const T> v = operand<S>(value, k0, nk, dim, values);
            gemm_serial<T>(nq, nk, dim, static_cast<T>(attention.scale), matrix(q), matrix(k, Transpose::yes),
                           T{0}, scores, kKeyBlock);
            for (std::int64_t i = 0; i < nq; ++i)
                weigh(i, q0 + i, k0, nk, k0 == range.begin);
            gemm_serial<T>(nq, dim, nk, T{1}, {scores, kKeyBlock}, matrix(v), k0 == range.begin ? T{0} : T{1},
                           result.data, result.stride);
        }
        for (std::int64_t i = 0; i < nq; ++i) {
            T* const row = result.at(i);
            const T inverse = T{1} / totals[i];
            for (std::int64_t d = 0; d < dim; ++d)
                row[d] *= inverse;
            logsumexp[q0 + i] = maxima[i] + std::log(totals[i]);
        }
        write_back<S>(result, out, q0, nq, dim);
    }

  private:
    // Row i of the block of scores becomes weights relative to the maximum so far.
    void weigh(std::int64_t i, std::int64_t q, std::int64_t k0, std::int64_t nk, bool first_block) {
        T* const row = scores + i * kKeyBlock;
        const auto [begin, end] = visible.within(q, k0, nk);
        if (begin < end) { // a query's document may begin behind the block
            const T most = row_maximum(row + begin, end - begin, maxima[i]);
            if (!first_block && most != maxima[i]) {
                const T shrink = std::exp(maxima[i] - most);
                totals[i] *= shrink;
                for (std::int64_t d = 0; d < attention.head_dim; ++d)
                    result.at(i)[d] *= shrink;
            }
            maxima[i] = most;
            totals[i] += exponentials(row + begin, end - begin, most);
        }
        std::fill(row, row + begin, T{0});
        std::fill(row + end, row + nk, T{0});
        if (attention.dropout.probability >
            0) // the sum is that of all weights: dropout comes after the softmax
            mask.for_each<T>(q, k0, end, [&](std::int64_t k, T multiplier) { row[k] *= multiplier; });
    }
};

} // namespace

std::int64_t attention_forward_scratch_bytes(DType type, std::int64_t dim) {
    std::int64_t bytes = 0;
    dispatch_stored("attention_forward", type, [&](auto zero) {
        using S = decltype(zero);
        bytes = ForwardBlock<S>::scratch_elements(dim) * static_cast<std::int64_t>(sizeof(Wide<S>));
    });
    return bytes;
}

void check_documents(const Tensor& documents) {
    if (!documents.defined())
        return;
    const std::int32_t* const first = data<std::int32_t>(documents);
    const std::int64_t batch = documents.shape()[1];
    for (std::int64_t i = 0; i < documents.elements(); ++i)
        TRIREME_ASSERT(first[i] >= (i < batch ? 0 : first[i - batch]) && first[i] <= i / batch,
                       "the document of position ", i / batch, ", row ", i % batch, ", begins at ", first[i]);
}

void CpuOperations::do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                         Tensor logsumexp) {
    check_documents(attention.documents);
    dispatch_stored("attention_forward", qkv.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1], packed = qkv.shape()[2];
        const std::int64_t heads = attention.heads, groups = attention.groups, dim = attention.head_dim;
        const std::int64_t blocks = (length + kQueryBlock - 1) / kQueryBlock;
        const std::int64_t elements = ForwardBlock<S>::scratch_elements(dim);
        scratch_.reserve(attention_forward_scratch_bytes(qkv.type(), dim));
        const S* const from = data<S>(qkv);
        S* const to = writable<S>(out);
        T* const lse = writable<T>(logsumexp);
        pool_.parallel_for(batch * heads * blocks, 1, [&](std::int64_t task, std::int64_t, int worker) {
            // The last block of queries sees most keys: long tasks first.
            const std::int64_t block = blocks - 1 - task % blocks;
            const std::int64_t head = task / blocks % heads, b = task / blocks / heads;
            const std::int64_t group = head * groups / heads;
            const auto rows_of = [&](std::int64_t index) {
                return head_rows(from, batch, packed, dim, b, index);
            };
            Pieces<T> pieces{scratch_.of<T>(worker, 0, elements).data()};
            const std::int64_t widened = kInPlace<S> ? 0 : dim;
            ForwardBlock<S> work{attention,
                                 VisibleKeys(attention, length, batch, b),
                                 rows_of(head),
                                 rows_of(heads + group),
                                 rows_of(heads + groups + group),
                                 head_rows(to, batch, heads, dim, b, head),
                                 lse + (b * heads + head) * length,
                                 DropoutMask(attention.dropout, b, attention.first_head + head),
                                 pieces.take(kQueryBlock * kKeyBlock),
                                 pieces.take(kQueryBlock),
                                 pieces.take(kQueryBlock),
                                 pieces.take(kQueryBlock * widened),
                                 pieces.take(kKeyBlock * widened),
                                 pieces.take(kKeyBlock * widened),
                                 pieces.take(kQueryBlock * widened)};
            work.compute(block * kQueryBlock, std::min(kQueryBlock, length - block * kQueryBlock));
        });
    });
}

} // namespace trireme::backend
