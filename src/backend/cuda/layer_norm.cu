// Layer norm, y = (x - mean) * rstd * weight + bias, in fp32 whatever the storage; the variance from the
// differences to the mean (no cancellation).
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/norm_rows.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

template <class T, int N, int kWarps, int kHeld>
__global__ void __launch_bounds__(kNormThreads<kWarps>)
    forward_kernel(const T* x, const T* weight, const T* bias, float epsilon, std::int64_t rows,
                   std::int64_t width, T* y, float* mean, float* rstd) {
    const std::int64_t row = row_of_group<kWarps>();
    if (row >= rows)
        return;
    const HeldRow<T, N, kWarp * kWarps, kHeld> values(x + row * width, width);
    float sum = 0;
    walk(values, [&](int, const float(&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            sum += v[j];
    });
    const float m = over_group<kWarps>(sum, Sum{}) / static_cast<float>(width);
    float squares = 0;
    walk(values, [&](int, const float(&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            squares += (v[j] - m) * (v[j] - m);
    });
    const float variance = over_group<kWarps>(squares, Sum{}) / static_cast<float>(width);
    const float s = 1 / sqrtf(variance + epsilon);
    if (values.lane() == 0) {
        mean[row] = m;
        rstd[row] = s;
    }
    walk(values, [&](int c, const float(&v)[N]) {
        float w[N], out[N];
        load(bias + c, out);
        load(weight + c, w);
#pragma unroll
        for (int j = 0; j < N; ++j)
            out[j] += (v[j] - m) * s * w[j];
        store(y + row * width + c, out);
    });
}

// With g = grad_y * weight and xhat = (x - mean) * rstd:
// grad_x = rstd * (g - mean of g - xhat * mean of (g * xhat)), added to `before` (grad_x itself or, if
// written, anything).
template <class T, int N, int kWarps, int kHeld, GradWrite kWrite>
__global__ void __launch_bounds__(kNormThreads<kWarps>)
    input_gradient_kernel(const T* grad_y, const T* x, const T* weight, const float* mean, const float* rstd,
                          std::int64_t rows, std::int64_t width, T* grad_x) {
    const std::int64_t row = row_of_group<kWarps>();
    if (row >= rows)
        return;
    using Row = HeldRow<T, N, kWarp * kWarps, kHeld>;
    const Row grad(grad_y + row * width, width), value(x + row * width, width);
    const Row before((kWrite == GradWrite::accumulate ? grad_x : grad_y) + row * width, width);
    const float m = mean[row], s = rstd[row];
    float sum_g = 0, sum_product = 0;
    walk(grad, value, [&](int c, const float(&g)[N], const float(&v)[N]) {
        float w[N];
        load(weight + c, w);
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float weighted = g[j] * w[j];
            sum_g += weighted;
            sum_product += weighted * ((v[j] - m) * s);
        }
    });
    const float mean_g = over_group<kWarps>(sum_g, Sum{}) / static_cast<float>(width);
    const float mean_product = over_group<kWarps>(sum_product, Sum{}) / static_cast<float>(width);
    walk(grad, value, before, [&](int c, const float(&g)[N], const float(&v)[N], const float(&old)[N]) {
        float w[N], out[N];
        load(weight + c, w);
#pragma unroll
        for (int j = 0; j < N; ++j) {
            out[j] = s * (g[j] * w[j] - mean_g - (v[j] - m) * s * mean_product);
            if constexpr (kWrite == GradWrite::accumulate)
                out[j] += old[j];
        }
        store(grad_x + row * width + c, out);
    });
}

template <class T, int N>
struct WeightTerms {
    const T *grad_y, *x;
    const float *mean, *rstd;
    std::int64_t width;
    __device__ void operator()(std::int64_t row, std::int64_t column, float (&to)[2][N]) const {
        const float m = mean[row], s = rstd[row];
        load(grad_y + row * width + column, to[1]);
        load(x + row * width + column, to[0]);
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[0][j] = (to[0][j] - m) * s * to[1][j];
    }
};

} // namespace

void CudaOperations::do_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                           double epsilon, Tensor y, Tensor mean, Tensor rstd) {
    if (x.elements() == 0)
        return;
    dispatch("layer_norm_forward", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, x, weight, bias, y), [&](auto n) {
            dispatch_warps<n>(width, [&](auto warps, auto held) {
                forward_kernel<T, n, warps, held>
                    <<<blocks_for_rows<warps>(rows(x)), kNormThreads<warps>, 0, stream_>>>(
                        data<T>(x), data<T>(weight), data<T>(bias), static_cast<float>(epsilon), rows(x),
                        width, writable<T>(y), writable<float>(mean), writable<float>(rstd));
                check_launch("layer_norm_forward");
            });
        });
    });
}

void CudaOperations::do_layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                  const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                                  GradWrite write) {
    if (x.elements() == 0)
        return;
    dispatch("layer_norm_input_gradient", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, grad_y, x, weight, grad_x), [&](auto n) {
            dispatch_warps<n>(width, [&](auto warps, auto held) {
                auto* const kernel = write == GradWrite::accumulate
                                         ? input_gradient_kernel<T, n, warps, held, GradWrite::accumulate>
                                         : input_gradient_kernel<T, n, warps, held, GradWrite::overwrite>;
                kernel<<<blocks_for_rows<warps>(rows(x)), kNormThreads<warps>, 0, stream_>>>(
                    data<T>(grad_y), data<T>(x), data<T>(weight), data<float>(mean), data<float>(rstd),
                    rows(x), width, writable<T>(grad_x));
                check_launch("layer_norm_input_gradient");
            });
        });
    });
}

void CudaOperations::do_layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                                   const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                                   GradWrite write) {
    dispatch("layer_norm_weight_gradient", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, grad_y, x), [&](auto n) {
            sum_columns<2, n>(
                stream_, scratch_, rows(x), width,
                WeightTerms<T, n>{data<T>(grad_y), data<T>(x), data<float>(mean), data<float>(rstd), width},
                ColumnTargets<2>{{writable<float>(grad_weight), writable<float>(grad_bias)}}, write);
        });
    });
}

void CudaOperations::do_layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                             const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                             GradWrite write, const NormWeightGradients& of_weights) {
    dispatch("layer_norm_gradients", x.type(), [&](auto zero) {
        using T = decltype(zero);
        if (!norm_gradient::serves<T>(grad_y, x, weight, grad_x))
            return Operations::do_layer_norm_gradients(grad_y, x, weight, mean, rstd, grad_x, write,
                                                       of_weights);
        norm_gradient::run<norm_gradient::Kind::layer_norm, T>(
            stream_, scratch_,
            {data<T>(grad_y), data<T>(x), data<T>(weight), data<float>(mean), data<float>(rstd), rows(x),
             static_cast<int>(columns(x)), writable<T>(grad_x)},
            write, {{writable<float>(of_weights.weight), writable<float>(of_weights.bias)}},
            of_weights.write);
    });
}

} // namespace trireme::backend
