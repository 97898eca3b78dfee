// GELU in its tanh form, 0.5 x (1 + tanh u) with u = k (x + a x^3), and its derivative.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

constexpr float kRoot2OverPi = 0.79788456080286535588f, kCubic = 0.044715f;

// Of a value in [1, infinity]; bf16 has 8 bits, to which the fast one is exact.
template <class T>
__device__ float reciprocal(float x) {
    if constexpr (std::is_same_v<T, bf16>)
        return __fdividef(1, x);
    else
        return 1 / x;
}

// 1 + tanh u = 2 s with s = 1 / (1 + e^(-2 u)); s and s (1 - s) keep their digits at both ends, and nothing
// overflows.
template <class T>
__device__ void sigmoid(float twice_u, float& s, float& slope) {
    const float e = exponential<T>(-fabsf(twice_u)), larger = reciprocal<T>(1 + e);
    s = twice_u >= 0 ? larger : e * larger;
    slope = e * larger * larger;
}

template <class T, int N>
__global__ void gelu_kernel(const T* x, T* y, std::int64_t packs) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    float v[N];
    load(x + i, v);
#pragma unroll
    for (int j = 0; j < N; ++j) {
        float s, slope;
        sigmoid<T>(2 * kRoot2OverPi * (v[j] + kCubic * v[j] * v[j] * v[j]), s, slope);
        v[j] *= s;
    }
    store(y + i, v);
}

// y = x s, so d/dx = s + x s (1 - s) 2 k (1 + 3 a x^2).
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
        float s, slope;
        sigmoid<T>(2 * kRoot2OverPi * (v[j] + kCubic * v[j] * square), s, slope);
        g[j] *= s + v[j] * slope * (2 * kRoot2OverPi * (1 + 3 * kCubic * square));
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
            gelu_kernel<T, n>
                <<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(data<T>(x), writable<T>(y), packs);
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
