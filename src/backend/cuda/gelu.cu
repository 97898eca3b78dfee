// GELU in its tanh form, 0.5 x (1 + tanh u) with u = k (x + a x^3), and its derivative.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

constexpr float kRoot2OverPi = 0.79788456080286535588f, kCubic = 0.044715f;

// tanh u = 1 - 2 / (e^(2 u) + 1): one exponential; for fp32 the library's tanh, which is exact near 0 too.
template <class T>
__device__ float tanh_of(float u) {
    if constexpr (std::is_same_v<T, bf16>)
        return 1 - __fdividef(2, __expf(2 * u) + 1);
    else
        return tanhf(u);
}

template <class T, int N>
__global__ void gelu_kernel(const T* x, T* y, std::int64_t packs) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    float v[N];
    load(x + i, v);
#pragma unroll
    for (int j = 0; j < N; ++j)
        v[j] = 0.5f * v[j] * (1 + tanh_of<T>(kRoot2OverPi * (v[j] + kCubic * v[j] * v[j] * v[j])));
    store(y + i, v);
}

// d/dx = 0.5 (1 + t) + 0.5 x (1 - t^2) k (1 + 3 a x^2), t = tanh u.
template <class T, int N>
__global__ void gelu_gradient_kernel(const T* grad_y, const T* x, T* grad_x, std::int64_t packs) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    float v[N], g[N];
    load(x + i, v);
    load(grad_y + i, g);
#pragma unroll
    for (int j = 0; j < N; ++j) {
        const float square = v[j] * v[j];
        const float t = tanh_of<T>(kRoot2OverPi * (v[j] + kCubic * v[j] * square));
        const float slope = kRoot2OverPi * (1 + 3 * kCubic * square);
        g[j] *= 0.5f * (1 + t) + 0.5f * v[j] * (1 - t * t) * slope;
    }
    store(grad_x + i, g);
}

} // namespace

void CudaOperations::do_gelu_forward(const Tensor& x, Tensor y) {
    if (x.elements() == 0)
        return;
    dispatch("gelu_forward", x.type(), [&](auto zero) {
        using T = decltype(zero);
        dispatch_packs<T>(fits_packs<T>(x.elements(), x, y), [&](auto n) {
            const std::int64_t packs = x.elements() / n;
            gelu_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(data<T>(x), writable<T>(y),
                                                                                      packs);
            check_launch("gelu_forward");
        });
    });
}

void CudaOperations::do_gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) {
    if (x.elements() == 0)
        return;
    dispatch("gelu_input_gradient", x.type(), [&](auto zero) {
        using T = decltype(zero);
        dispatch_packs<T>(fits_packs<T>(x.elements(), grad_y, x, grad_x), [&](auto n) {
            const std::int64_t packs = x.elements() / n;
            gelu_gradient_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                data<T>(grad_y), data<T>(x), writable<T>(grad_x), packs);
            check_launch("gelu_input_gradient");
        });
    });
}

} // namespace trireme::backend
