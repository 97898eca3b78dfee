// Layer norm, y = (x - mean) * rstd * weight + bias, in fp32 whatever the storage. A row belongs to one warp, or to a whole
// block if it is long; it stays in registers between the passes, as far as it fits.
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

// This thread's part of a row of `packs` packs of N floats. The first kHeld packs are held in registers; `compute` makes
// the others anew on each walk: compute(first element, to).
template <int kGroup, int N>
struct RowPart {
    static constexpr int kHeld = 4;
    float held[kHeld][N];
    int lane;
    std::int64_t packs;

    template <class Compute>
    __device__ RowPart(std::int64_t width, const Compute& compute)
        : lane(static_cast<int>(threadIdx.x) % kGroup), packs(width / N) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k)
            if (lane + k * kGroup < packs)
                compute(static_cast<std::int64_t>(lane + k * kGroup) * N, held[k]);
    }
    // visit(first element, values)
    template <class Compute, class Visit>
    __device__ void each(const Compute& compute, const Visit& visit) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k)
            if (lane + k * kGroup < packs)
                visit(static_cast<std::int64_t>(lane + k * kGroup) * N, held[k]);
        for (std::int64_t pack = lane + kHeld * kGroup; pack < packs; pack += kGroup) {
            float values[N];
            compute(pack * N, values);
            visit(pack * N, values);
        }
    }
};

template <int kWarps>
__device__ std::int64_t row_of_group() {
    return static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp / kWarps) +
           threadIdx.x / (kWarp * kWarps);
}

template <class T, int N, int kWarps>
__global__ void forward_kernel(const T* x, const T* weight, const T* bias, float epsilon, std::int64_t rows,
                               std::int64_t width, T* y, float* mean, float* rstd) {
    const std::int64_t row = row_of_group<kWarps>();
    if (row >= rows)
        return;
    const auto read = [&](std::int64_t c, float (&to)[N]) { load(x + row * width + c, to); };
    RowPart<kWarp * kWarps, N> part(width, read);
    float sum = 0;
    part.each(read, [&](std::int64_t, const float (&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            sum += v[j];
    });
    const float m = over_group<kWarps>(sum, Sum{}) / static_cast<float>(width);
    float squares = 0;
    part.each(read, [&](std::int64_t, const float (&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            squares += (v[j] - m) * (v[j] - m);
    });
    const float variance = over_group<kWarps>(squares, Sum{}) / static_cast<float>(width);
    const float s = 1 / sqrtf(variance + epsilon);
    if (part.lane == 0) {
        mean[row] = m;
        rstd[row] = s;
    }
    part.each(read, [&](std::int64_t c, const float (&v)[N]) {
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
// grad_x = rstd * (g - mean of g - xhat * mean of (g * xhat)).
template <class T, int N, int kWarps>
__global__ void input_gradient_kernel(const T* grad_y, const T* x, const T* weight, const float* mean,
                                      const float* rstd, std::int64_t rows, std::int64_t width, T* grad_x,
                                      GradWrite write) {
    const std::int64_t row = row_of_group<kWarps>();
    if (row >= rows)
        return;
    const float m = mean[row], s = rstd[row];
    const auto weighted = [&](std::int64_t c, float (&to)[N]) {
        float w[N];
        load(grad_y + row * width + c, to);
        load(weight + c, w);
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[j] *= w[j];
    };
    const auto normalised = [&](std::int64_t c, float (&to)[N]) {
        load(x + row * width + c, to);
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[j] = (to[j] - m) * s;
    };
    RowPart<kWarp * kWarps, N> g(width, weighted), hat(width, normalised);
    float sum_g = 0, sum_product = 0;
    const auto both = [&](const auto& visit) {
#pragma unroll
        for (int k = 0; k < g.kHeld; ++k)
            if (g.lane + k * kWarp * kWarps < g.packs)
                visit(static_cast<std::int64_t>(g.lane + k * kWarp * kWarps) * N, g.held[k], hat.held[k]);
        for (std::int64_t pack = g.lane + g.kHeld * kWarp * kWarps; pack < g.packs; pack += kWarp * kWarps) {
            float a[N], b[N];
            weighted(pack * N, a);
            normalised(pack * N, b);
            visit(pack * N, a, b);
        }
    };
    both([&](std::int64_t, const float (&a)[N], const float (&b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            sum_g += a[j];
            sum_product += a[j] * b[j];
        }
    });
    const float mean_g = over_group<kWarps>(sum_g, Sum{}) / static_cast<float>(width);
    const float mean_product = over_group<kWarps>(sum_product, Sum{}) / static_cast<float>(width);
    both([&](std::int64_t c, const float (&a)[N], const float (&b)[N]) {
        float out[N] = {};
        if (write == GradWrite::accumulate)
            load(grad_x + row * width + c, out);
#pragma unroll
        for (int j = 0; j < N; ++j)
            out[j] += s * (a[j] - mean_g - b[j] * mean_product);
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

// compute(warps of a row): one for rows that a warp holds, else the whole block.
template <int N, class Compute>
void dispatch_warps(std::int64_t width, const Compute& compute) {
    if (width <= RowPart<kWarp, N>::kHeld * kWarp * N)
        compute(std::integral_constant<int, 1>{});
    else
        compute(std::integral_constant<int, kThreads / kWarp>{});
}
unsigned blocks_for_rows(std::int64_t rows, int warps) {
    return blocks_for(rows, kThreads / kWarp / warps);
}

} // namespace

void CudaOperations::do_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                           double epsilon, Tensor y, Tensor mean, Tensor rstd) {
    if (x.elements() == 0)
        return;
    dispatch("layer_norm_forward", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(x);
        dispatch_packs<T>(fits_packs<T>(width, x, weight, bias, y), [&](auto n) {
            dispatch_warps<n>(width, [&](auto warps) {
                forward_kernel<T, n, warps><<<blocks_for_rows(rows(x), warps), kThreads, 0, stream_>>>(
                    data<T>(x), data<T>(weight), data<T>(bias), static_cast<float>(epsilon), rows(x), width,
                    writable<T>(y), writable<float>(mean), writable<float>(rstd));
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
            dispatch_warps<n>(width, [&](auto warps) {
                input_gradient_kernel<T, n, warps>
                    <<<blocks_for_rows(rows(x), warps), kThreads, 0, stream_>>>(
                        data<T>(grad_y), data<T>(x), data<T>(weight), data<float>(mean), data<float>(rstd),
                        rows(x), width, writable<T>(grad_x), write);
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

} // namespace trireme::backend
