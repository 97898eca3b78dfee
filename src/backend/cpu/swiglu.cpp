// SwiGLU (Shazeer 2020): y = silu(gate) * up with silu(g) = g s, s = 1 / (1 + e^(-g)); a row holds its gates,
// then its ups.
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {
// Where e^(-g) would overflow: s is then as good as zero.
template <class T>
inline constexpr T kLargestExponent = sizeof(T) == 4 ? T{80} : T{700};
} // namespace

void CpuOperations::do_swiglu_forward(const Tensor& gate_up, Tensor y) {
    dispatch_stored("swiglu_forward", gate_up.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(y);
        const S* const from = data<S>(gate_up);
        S* const to = writable<S>(y);
        pool_.parallel_for(rows(y), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = begin; r < end; ++r) {
                const S *const gates = from + 2 * r * width, *const ups = gates + width;
                simd::for_vectors<T>(width, [&](std::int64_t i, auto count) {
                    const simd::Vec<T> gate = simd::load_some(gates + i, count);
                    const simd::Vec<T> silu = gate / (T{1} + simd::exp(-gate));
                    simd::store_some(to + r * width + i, simd::Vec<T>(silu * simd::load_some(ups + i, count)),
                                     count);
                });
            }
        });
    });
}

// d(g s)/dg = s + g s (1 - s), where 1 - s = s e^(-g) keeps its digits as s nears 1.
void CpuOperations::do_swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up,
                                             Tensor grad_gate_up) {
    dispatch_stored("swiglu_input_gradient", gate_up.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(grad_y);
        const S *const grad = data<S>(grad_y), *const from = data<S>(gate_up);
        S* const to = writable<S>(grad_gate_up);
        pool_.parallel_for(
            rows(grad_y), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t r = begin; r < end; ++r) {
                    const S *const gates = from + 2 * r * width, *const ups = gates + width;
                    S *const grad_gates = to + 2 * r * width, *const grad_ups = grad_gates + width;
                    simd::for_vectors<T>(width, [&](std::int64_t i, auto count) {
                        const simd::Vec<T> gate = simd::load_some(gates + i, count);
                        const simd::Vec<T> g = simd::load_some(grad + r * width + i, count);
                        simd::Vec<T> exponent = -gate;
                        exponent =
                            exponent > kLargestExponent<T> ? simd::splat(kLargestExponent<T>) : exponent;
                        const simd::Vec<T> e = simd::exp(exponent);
                        const simd::Vec<T> s = T{1} / (T{1} + e);
                        const simd::Vec<T> slope = s + gate * s * (s * e);
                        simd::store_some(grad_gates + i,
                                         simd::Vec<T>(g * simd::load_some(ups + i, count) * slope), count);
                        simd::store_some(grad_ups + i, simd::Vec<T>(g * (gate * s)), count);
                    });
                }
            });
    });
}

} // namespace trireme::backend
