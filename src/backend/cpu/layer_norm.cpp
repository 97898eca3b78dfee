// Layer norm, y = (x - mean) * rstd * weight + bias, one row at a time; the variance from the differences to
// the mean (two passes, no cancellation).
#include <cmath>

#include "backend/cpu/column_sums.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

// The sum over i < n of term(i, count), a vector of terms from i on; lanes beyond `count` are left out.
template <class T, class Term>
T sum_row(std::int64_t n, const Term& term) {
    simd::Vec<T> sum{};
    simd::for_vectors<T>(n, [&](std::int64_t i, auto count) {
        simd::Vec<T> value = term(i, count);
        for (std::int64_t lane = count; lane < simd::kLanes<T>; ++lane)
            value[lane] = 0;
        sum += value;
    });
    return simd::sum_of_lanes<T>(sum);
}

} // namespace

void CpuOperations::do_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                          double epsilon, Tensor y, Tensor mean, Tensor rstd) {
    dispatch_stored("layer_norm_forward", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(x);
        const S *const from = data<S>(x), *const w = data<S>(weight), *const shift = data<S>(bias);
        S* const to = writable<S>(y);
        T *const means = writable<T>(mean), *const rstds = writable<T>(rstd);
        pool_.parallel_for(rows(x), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = begin; r < end; ++r) {
                const S* const row = from + r * width;
                const T m = sum_row<T>(width, [&](std::int64_t i,
                                                  auto count) { return simd::load_some(row + i, count); }) /
                            static_cast<T>(width);
                const T variance = sum_row<T>(width,
                                              [&](std::int64_t i, auto count) {
                                                  const simd::Vec<T> centred =
                                                      simd::load_some(row + i, count) - m;
                                                  return centred * centred;
                                              }) /
                                   static_cast<T>(width);
                const T s = T{1} / std::sqrt(variance + static_cast<T>(epsilon));
                means[r] = m;
                rstds[r] = s;
                for (std::int64_t c = 0; c < width; ++c)
                    to[r * width + c] = narrow<S>((widen(row[c]) - m) * s * widen(w[c]) + widen(shift[c]));
            }
        });
    });
}

// With g = grad_y * weight and xhat = (x - mean) * rstd:
// grad_x = rstd * (g - mean of g - xhat * mean of (g * xhat)).
void CpuOperations::do_layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                 const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                                 GradWrite write) {
    dispatch_stored("layer_norm_input_gradient", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(x);
        const S *const grad = data<S>(grad_y), *const from = data<S>(x), *const w = data<S>(weight);
        const T *const means = data<T>(mean), *const rstds = data<T>(rstd);
        S* const to = writable<S>(grad_x);
        pool_.parallel_for(rows(x), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = begin; r < end; ++r) {
                const S *const g = grad + r * width, *const row = from + r * width;
                const T m = means[r], s = rstds[r];
                S* const out = to + r * width;
                const T mean_g =
                    sum_row<T>(width,
                               [&](std::int64_t i, auto count) {
                                   return simd::load_some(g + i, count) * simd::load_some(w + i, count);
                               }) /
                    static_cast<T>(width);
                const T mean_gx = sum_row<T>(width,
                                             [&](std::int64_t i, auto count) {
                                                 return simd::load_some(g + i, count) *
                                                        simd::load_some(w + i, count) *
                                                        ((simd::load_some(row + i, count) - m) * s);
                                             }) /
                                  static_cast<T>(width);
                const auto gradient = [&](std::int64_t c) {
                    return s * (widen(g[c]) * widen(w[c]) - mean_g - (widen(row[c]) - m) * s * mean_gx);
                };
                if (write == GradWrite::accumulate)
                    for (std::int64_t c = 0; c < width; ++c)
                        out[c] = narrow<S>(widen(out[c]) + gradient(c));
                else
                    for (std::int64_t c = 0; c < width; ++c)
                        out[c] = narrow<S>(gradient(c));
            }
        });
    });
}

void CpuOperations::do_layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                                  const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                                  GradWrite write) {
    dispatch_stored("layer_norm_weight_gradient", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(x);
        const S *const g = data<S>(grad_y), *const from = data<S>(x);
        const T *const means = data<T>(mean), *const rstds = data<T>(rstd);
        sum_columns<2, T>(pool_, scratch_, rows(x), width, {writable<T>(grad_weight), writable<T>(grad_bias)},
                          write, [=](std::int64_t r, std::int64_t c, auto count) {
                              const simd::Vec<T> value = simd::load_some(g + r * width + c, count);
                              const simd::Vec<T> centred =
                                  simd::load_some(from + r * width + c, count) - means[r];
                              return std::array{value * (centred * rstds[r]), value};
                          });
    });
}

} // namespace trireme::backend
