// RMS norm (Zhang and Sennrich 2019), y = x * rstd * weight with rstd = 1 / sqrt(mean of x^2 + epsilon), one
// row at a time.
#include <cmath>

#include "backend/cpu/column_sums.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

// The mean over i < n of term(i, count), a vector of terms from i on; terms beyond the row are zero.
template <class T, class Term>
T row_mean(std::int64_t n, const Term& term) {
    simd::Vec<T> sum{};
    simd::for_vectors<T>(n, [&](std::int64_t i, auto count) { sum += term(i, count); });
    return simd::sum_of_lanes<T>(sum) / static_cast<T>(n);
}

} // namespace

void CpuOperations::do_rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y,
                                        Tensor rstd) {
    dispatch_stored("rms_norm_forward", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(x);
        const S *const from = data<S>(x), *const w = data<S>(weight);
        S* const to = writable<S>(y);
        T* const rstds = writable<T>(rstd);
        pool_.parallel_for(rows(x), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = begin; r < end; ++r) {
                const S* const row = from + r * width;
                const T mean_square = row_mean<T>(width, [&](std::int64_t i, auto count) {
                    const simd::Vec<T> value = simd::load_some(row + i, count);
                    return value * value;
                });
                const T s = T{1} / std::sqrt(mean_square + static_cast<T>(epsilon));
                rstds[r] = s;
                simd::for_vectors<T>(width, [&](std::int64_t i, auto count) {
                    simd::store_some(
                        to + r * width + i,
                        simd::Vec<T>(simd::load_some(row + i, count) * s * simd::load_some(w + i, count)),
                        count);
                });
            }
        });
    });
}

// With g = grad_y * weight and xhat = x * rstd: grad_x = rstd * (g - xhat * mean of (g * xhat)).
void CpuOperations::do_rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                               const Tensor& rstd, Tensor grad_x, GradWrite write) {
    dispatch_stored("rms_norm_input_gradient", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(x);
        const S *const grad = data<S>(grad_y), *const from = data<S>(x), *const w = data<S>(weight);
        const T* const rstds = data<T>(rstd);
        S* const to = writable<S>(grad_x);
        pool_.parallel_for(rows(x), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = begin; r < end; ++r) {
                const S *const row = from + r * width, *const g = grad + r * width;
                S* const out = to + r * width;
                const T s = rstds[r];
                const T projection = row_mean<T>(width, [&](std::int64_t i, auto count) {
                    return simd::Vec<T>(simd::load_some(g + i, count) * simd::load_some(w + i, count) *
                                        (simd::load_some(row + i, count) * s));
                });
                simd::for_vectors<T>(width, [&](std::int64_t i, auto count) {
                    simd::Vec<T> gradient =
                        s * (simd::load_some(g + i, count) * simd::load_some(w + i, count) -
                             simd::load_some(row + i, count) * s * projection);
                    if (write == GradWrite::accumulate)
                        gradient += simd::load_some(out + i, count);
                    simd::store_some(out + i, gradient, count);
                });
            }
        });
    });
}

void CpuOperations::do_rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                                Tensor grad_weight, GradWrite write) {
    dispatch_stored("rms_norm_weight_gradient", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(x);
        const S *const g = data<S>(grad_y), *const from = data<S>(x);
        const T* const rstds = data<T>(rstd);
        sum_columns<1, T>(pool_, scratch_, rows(x), width, {writable<T>(grad_weight)}, write,
                          [=](std::int64_t r, std::int64_t c, auto count) {
                              const simd::Vec<T> value = simd::load_some(g + r * width + c, count);
                              return std::array{simd::Vec<T>(
                                  value * (simd::load_some(from + r * width + c, count) * rstds[r]))};
                          });
    });
}

} // namespace trireme::backend
