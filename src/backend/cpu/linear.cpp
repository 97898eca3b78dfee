// y = x W^T + bias and its gradients, as three matrix products.
#include "backend/cpu/column_sums.hpp"
#include "backend/cpu/gemm_narrow.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {

void CpuOperations::do_linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) {
    const std::int64_t n = rows(x), in = columns(x), out = columns(y);
    if (is_narrow(x.type()))
        return dispatch_narrow(x.type(), [&](auto zero) {
            using S = decltype(zero);
            gemm_narrow<S>(pool_, scratch_, n, out, in, {data<S>(x), in},
                           {data<S>(weight), in, Transpose::yes}, bias.defined() ? data<S>(bias) : nullptr,
                           writable<S>(y), out);
        });
    dispatch_float("linear_forward", x.type(), [&](auto zero) {
        using T = decltype(zero);
        T* const result = writable<T>(y);
        if (bias.defined()) { // the product is added to the bias, which costs no more than to a zero
            const T* const from = data<T>(bias);
            pool_.parallel_for(n, rows_per_chunk(out), [=](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t i = begin; i < end; ++i)
                    std::copy_n(from, out, result + i * out);
            });
        }
        gemm<T>(pool_, n, out, in, T{1}, {data<T>(x), in}, {data<T>(weight), in, Transpose::yes},
                bias.defined() ? T{1} : T{0}, result, out);
    });
}

void CpuOperations::do_linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x) {
    const std::int64_t in = columns(grad_x), out = columns(grad_y);
    if (is_narrow(grad_y.type()))
        return dispatch_narrow(grad_y.type(), [&](auto zero) {
            using S = decltype(zero);
            gemm_narrow<S>(pool_, scratch_, rows(grad_y), in, out, {data<S>(grad_y), out},
                           {data<S>(weight), in}, nullptr, writable<S>(grad_x), in);
        });
    dispatch_float("linear_input_gradient", grad_y.type(), [&](auto zero) {
        using T = decltype(zero);
        gemm<T>(pool_, rows(grad_y), in, out, T{1}, {data<T>(grad_y), out}, {data<T>(weight), in}, T{0},
                writable<T>(grad_x), in);
    });
}

void CpuOperations::do_linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                              GradWrite write) {
    const std::int64_t in = columns(x), out = columns(grad_y);
    if (is_narrow(x.type()))
        return dispatch_narrow(x.type(), [&](auto zero) {
            using S = decltype(zero);
            gemm_narrow<S>(pool_, scratch_, out, in, rows(x), {data<S>(grad_y), out, Transpose::yes},
                           {data<S>(x), in}, write == GradWrite::accumulate ? 1.0F : 0.0F,
                           writable<float>(grad_weight), in);
        });
    dispatch_float("linear_weight_gradient", x.type(), [&](auto zero) {
        using T = decltype(zero);
        gemm<T>(pool_, out, in, rows(x), T{1}, {data<T>(grad_y), out, Transpose::yes}, {data<T>(x), in},
                write == GradWrite::accumulate ? T{1} : T{0}, writable<T>(grad_weight), in);
    });
}

void CpuOperations::do_bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write) {
    dispatch_stored("bias_gradient", grad_y.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const S* const from = data<S>(grad_y);
        const std::int64_t width = columns(grad_y);
        sum_columns<1, T>(pool_, scratch_, rows(grad_y), width, {writable<T>(grad_bias)}, write,
                          [=](std::int64_t r, std::int64_t c, auto count) {
                              return std::array{simd::load_some(from + r * width + c, count)};
                          });
    });
}

} // namespace trireme::backend
