// Cross-entropy over a vocabulary of which this rank holds some rows, in the steps that ops.hpp fixes: the
// reductions over tensor ranks lie between them, so the logits are never gathered.
#include <cmath>
#include <limits>

#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

// e^(logit - maximum) * scale of one logit, as the vectors compute it.
template <class S>
Wide<S> probability(const S* logit, Wide<S> maximum, Wide<S> scale) {
    return (simd::exp(simd::load_some(logit, std::int64_t{1}) - maximum) * scale)[0];
}

} // namespace

void CpuOperations::do_cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns,
                                             Tensor maximum) {
    dispatch_stored("cross_entropy_maximum", logits.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(logits);
        const S* const from = data<S>(logits);
        T* const to = writable<T>(maximum);
        pool_.parallel_for(
            rows(logits), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
                constexpr T kLowest = -std::numeric_limits<T>::infinity();
                for (std::int64_t r = begin; r < end; ++r) {
                    simd::Vec<T> most = simd::splat(kLowest);
                    simd::for_vectors<T>(valid_columns, [&](std::int64_t i, auto count) {
                        most = simd::maximum(simd::load_some(from + r * width + i, count, kLowest), most);
                    });
                    to[r] = simd::maximum_of_lanes<T>(most);
                }
            });
    });
}

void CpuOperations::do_cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns,
                                          const Tensor& targets, std::int64_t first_row,
                                          const Tensor& maximum, Tensor sums) {
    dispatch_stored("cross_entropy_sums", logits.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t n = rows(logits), width = columns(logits);
        const S* const from = data<S>(logits);
        const T* const maxima = data<T>(maximum);
        const std::int32_t* const target = data<std::int32_t>(targets);
        T* const to = writable<T>(sums);
        pool_.parallel_for(n, rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            constexpr T kLowest = -std::numeric_limits<T>::infinity();
            for (std::int64_t r = begin; r < end; ++r) {
                const S* const row = from + r * width;
                simd::Vec<T> sum{};
                simd::for_vectors<T>(valid_columns, [&](std::int64_t i, auto count) {
                    sum += simd::exp(simd::load_some(row + i, count, kLowest) - maxima[r]);
                });
                const std::int64_t column = target[r] - first_row;
                to[r] = simd::sum_of_lanes<T>(sum);
                to[n + r] = column >= 0 && column < valid_columns ? widen(row[column]) - maxima[r] : T{0};
            }
        });
    });
}

// One thread: n logarithms, added in double in the order of the tokens.
void CpuOperations::do_cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) {
    dispatch_float("cross_entropy_loss", sums.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t n = columns(sums);
        const T* const from = data<T>(sums);
        const T* const weight = mask.defined() ? data<T>(mask) : nullptr;
        double total = 0;
        for (std::int64_t i = 0; i < n; ++i)
            total += static_cast<double>(weight == nullptr ? T{1} : weight[i]) *
                     static_cast<double>(std::log(from[i]) - from[n + i]);
        T* const to = writable<T>(loss);
        *to = static_cast<T>(static_cast<double>(*to) + total);
    });
}

void CpuOperations::do_cross_entropy_gradient(Tensor logits, std::int64_t valid_columns,
                                              const Tensor& targets, std::int64_t first_row,
                                              const Tensor& maximum, const Tensor& sums, const Tensor& mask,
                                              double factor) {
    dispatch_stored("cross_entropy_gradient", logits.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(logits);
        const T *const maxima = data<T>(maximum), *const sum = data<T>(sums);
        const T* const weight = mask.defined() ? data<T>(mask) : nullptr;
        const std::int32_t* const target = data<std::int32_t>(targets);
        S* const to = writable<S>(logits);
        const T common = static_cast<T>(factor);
        pool_.parallel_for(
            rows(logits), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t r = begin; r < end; ++r) {
                    S* const row = to + r * width;
                    const T of_row = weight == nullptr ? common : common * weight[r];
                    const T scale = of_row / sum[r];
                    const std::int64_t column = target[r] - first_row;
                    const bool here = column >= 0 && column < valid_columns;
                    const T of_target = here ? probability(row + column, maxima[r], scale) : T{0};
                    simd::for_vectors<T>(valid_columns, [&](std::int64_t i, auto count) {
                        simd::store_some(
                            row + i,
                            simd::Vec<T>(simd::exp(simd::load_some(row + i, count) - maxima[r]) * scale),
                            count);
                    });
                    if (here)
                        row[column] = narrow<S>(of_target - of_row);
                    std::fill(row + valid_columns, row + width, S{});
                }
            });
    });
}

} // namespace trireme::backend
