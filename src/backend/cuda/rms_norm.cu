// RMS norm, y = x * rstd * weight with rstd = 1 / sqrt(mean of x^2 + epsilon), in fp32 whatever the storage.
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/norm_rows.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

template <class T, int N, int kWarps, int kHeld>
__global__ void __launch_bounds__(kNormThreads<kWarps>)
    forward_kernel(const T* x, const T* weight, float epsilon, std::int64_t rows, std::int64_t width, T* y,
                   float* rstd) {
    const std::int64_t row = row_of_group<kWarps>();
    if (row >= rows)
        return;
    const HeldRow<T, N, kWarp * kWarps, kHeld> values(x + row * width, width);
    float squares = 0;
    walk(values, [&](int, const float(&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            squares += v[j] * v[j];
    });
    const float s = 1 / sqrtf(over_group<kWarps>(squares, Sum{}) / static_cast<float>(width) + epsilon);
    if (values.lane() == 0)
        rstd[row] = s;
    walk(values, [&](int c, const float(&v)[N]) {
        float out[N];
        load(weight + c, out);
#pragma unroll
        for (int j = 0; j < N; ++j)
            out[j] *= v[j] * s;
        store(y + row * width + c, out);
    });
}

// With g = grad_y * weight and xhat = x * rstd: grad_x = rstd * (g - xhat * mean of (g * xhat)).
template <class T, int N, int kWarps, int kHeld, GradWrite kWrite>
__global__ void __launch_bounds__(kNormThreads<kWarps>)
    input_gradient_kernel(const T* grad_y, const T* x, const T* weight, const float* rstd, std::int64_t rows,
                          std::int64_t width, T* grad_x) {
    const std::int64_t row = row_of_group<kWarps>();
    if (row >= rows)
        return;
    using Row = HeldRow<T, N, kWarp * kWarps, kHeld>;
    const Row grad(grad_y + row * width, width), value(x + row * width, width);
    const Row before((kWrite == GradWrite::accumulate ? grad_x : grad_y) + row * width, width);
    const float s = rstd[row];
    float sum = 0;
    walk(grad, value, [&](int c, const float(&g)[N], const float(&v)[N]) {
        float w[N];
        load(weight + c, w);
#pragma unroll
        for (int j = 0; j < N; ++j)
            sum += g[j] * w[j] * (v[j] * s);
    });
    const float projection = over_group<kWarps>(sum, Sum{}) / static_cast<float>(width);
    walk(grad, value, before, [&](int c, const float(&g)[N], const float(&v)[N], const float(&old)[N]) {
        float w[N], out[N];
        load(weight + c, w);
#pragma unroll
        for (int j = 0; j < N; ++j) {
            out[j] = s * (g[j] * w[j] - v[j] * s * projection);
            if constexpr (kWrite == GradWrite::accumulate)
                out[j] += old[j];
        }
        store(grad_x + row * width + c, out);
    });
}

template <class T, int N>
struct WeightTerms {
    const T *grad_y, *x;
    const float* rstd;
    std::int64_t width;
    __device__ void operator()(std::int64_t row, std::int64_t column, float (&to)[1][N]) const {
        float v[N];
        load(grad_y + row * width + column, to[0]);
        load(x + row * width + column, v);
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[0][j] *= v[j] * rstd[row];
    }
};

} // namespace

void CudaOperations::do_rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y,
                                         Tensor rstd) {
    if (x.elements() == 0)
        return;
    dispatch("rms_norm_forward", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, x, weight, y), [&](auto n) {
            dispatch_warps<n>(width, [&](auto warps, auto held) {
                forward_kernel<T, n, warps, held>
                    <<<blocks_for_rows<warps>(rows(x)), kNormThreads<warps>, 0, stream_>>>(
                        data<T>(x), data<T>(weight), static_cast<float>(epsilon), rows(x), width,
                        writable<T>(y), writable<float>(rstd));
                check_launch("rms_norm_forward");
            });
        });
    });
}

void CudaOperations::do_rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                const Tensor& rstd, Tensor grad_x, GradWrite write) {
    if (x.elements() == 0)
        return;
    dispatch("rms_norm_input_gradient", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, grad_y, x, weight, grad_x), [&](auto n) {
            dispatch_warps<n>(width, [&](auto warps, auto held) {
                auto* const kernel = write == GradWrite::accumulate
                                         ? input_gradient_kernel<T, n, warps, held, GradWrite::accumulate>
                                         : input_gradient_kernel<T, n, warps, held, GradWrite::overwrite>;
                kernel<<<blocks_for_rows<warps>(rows(x)), kNormThreads<warps>, 0, stream_>>>(
                    data<T>(grad_y), data<T>(x), data<T>(weight), data<float>(rstd), rows(x), width,
                    writable<T>(grad_x));
                check_launch("rms_norm_input_gradient");
            });
        });
    });
}

void CudaOperations::do_rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                                 Tensor grad_weight, GradWrite write) {
    dispatch("rms_norm_weight_gradient", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, grad_y, x), [&](auto n) {
            sum_columns<1, n>(stream_, scratch_, rows(x), width,
                              WeightTerms<T, n>{data<T>(grad_y), data<T>(x), data<float>(rstd), width},
                              ColumnTargets<1>{{writable<float>(grad_weight)}}, write);
        });
    });
}

void CudaOperations::do_rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                           const Tensor& rstd, Tensor grad_x, GradWrite write,
                                           const NormWeightGradients& of_weights) {
    dispatch("rms_norm_gradients", x.type(), [&](auto zero) {
        using T = decltype(zero);
        if (!norm_gradient::serves<T>(grad_y, x, weight, grad_x))
            return Operations::do_rms_norm_gradients(grad_y, x, weight, rstd, grad_x, write, of_weights);
        norm_gradient::run<norm_gradient::Kind::rms_norm, T>(
            stream_, scratch_,
            {data<T>(grad_y), data<T>(x), data<T>(weight), nullptr, data<float>(rstd), rows(x),
             static_cast<int>(columns(x)), writable<T>(grad_x)},
            write, {{writable<float>(of_weights.weight)}}, of_weights.write);
    });
}

} // namespace trireme::backend
