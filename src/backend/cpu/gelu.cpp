// GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), computed as x s with
// s = 1 / (1 + e^(-2u)): the same function, one exponential, and no cancellation for very negative x.
#include <numbers>

#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

template <class T>
inline constexpr T kTwiceRootTwoOverPi = static_cast<T>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
template <class T>
inline constexpr T kCubic = static_cast<T>(0.044715);

// 2u = log(s / (1 - s))
template <class T>
simd::Vec<T> twice_u(const simd::Vec<T>& x) {
    return kTwiceRootTwoOverPi<T> * x * (T{1} + kCubic<T> * (x * x));
}

// Where e^(-2u) would overflow: s is then as good as zero.
template <class T>
inline constexpr T kLargestExponent = sizeof(T) == 4 ? T{80} : T{700};

} // namespace

void CpuOperations::do_gelu_forward(const Tensor& x, Tensor y) {
    dispatch_stored("gelu_forward", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const S* const from = data<S>(x);
        S* const to = writable<S>(y);
        pool_.parallel_for(x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
            simd::for_vectors<T>(end - begin, [&](std::int64_t i, auto count) {
                const simd::Vec<T> value = simd::load_some(from + begin + i, count);
                const simd::Vec<T> s = T{1} / (T{1} + simd::exp(-twice_u<T>(value)));
                simd::store_some(to + begin + i, simd::Vec<T>(value * s), count);
            });
        });
    });
}

// d(x s)/dx = s + x s (1 - s) * d(2u)/dx, where 1 - s = s e^(-2u) keeps its digits as s nears 1.
void CpuOperations::do_gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) {
    dispatch_stored("gelu_input_gradient", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const S *const grad = data<S>(grad_y), *const from = data<S>(x);
        S* const to = writable<S>(grad_x);
        pool_.parallel_for(x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
            simd::for_vectors<T>(end - begin, [&](std::int64_t i, auto count) {
                const simd::Vec<T> value = simd::load_some(from + begin + i, count);
                simd::Vec<T> exponent = -twice_u<T>(value);
                exponent = exponent > kLargestExponent<T> ? simd::splat(kLargestExponent<T>) : exponent;
                const simd::Vec<T> e = simd::exp(exponent);
                const simd::Vec<T> s = T{1} / (T{1} + e);
                const simd::Vec<T> slope =
                    kTwiceRootTwoOverPi<T> * (T{1} + T{3} * kCubic<T> * (value * value));
                const simd::Vec<T> derivative = s + value * s * (s * e) * slope;
                simd::store_some(to + begin + i,
                                 simd::Vec<T>(simd::load_some(grad + begin + i, count) * derivative), count);
            });
        });
    });
}

} // namespace trireme::backend
