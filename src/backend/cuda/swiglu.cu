// SwiGLU (Shazeer 2020): y = silu(gate) * up with silu(g) = g s, s = 1 / (1 + e^(-g)); a row holds its gates,
// then its ups.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

template <class T, int N>
__global__ void swiglu_kernel(const T* gate_up, std::int64_t packs, std::int64_t width, T* y) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    const std::int64_t row = i / width, c = i - row * width;
    float gate[N], up[N];
    load(gate_up + 2 * row * width + c, gate);
    load(gate_up + (2 * row + 1) * width + c, up);
#pragma unroll
    for (int j = 0; j < N; ++j)
        up[j] *= gate[j] / (1 + exponential<T>(-gate[j]));
    store(y + i, up);
}

// d(g s)/dg = s + g s (1 - s); s and s (1 - s) are made from e^(-|g|), so nothing overflows and both ends
// keep their digits.
template <class T, int N>
__global__ void swiglu_gradient_kernel(const T* grad_y, const T* gate_up, std::int64_t packs,
                                       std::int64_t width, T* grad_gate_up) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    const std::int64_t row = i / width, c = i - row * width;
    float gate[N], up[N], g[N];
    load(gate_up + 2 * row * width + c, gate);
    load(gate_up + (2 * row + 1) * width + c, up);
    load(grad_y + i, g);
#pragma unroll
    for (int j = 0; j < N; ++j) {
        const float e = exponential<T>(-fabsf(gate[j])), larger = 1 / (1 + e);
        const float s = gate[j] >= 0 ? larger : e * larger;
        const float grad_up = g[j] * (gate[j] * s);
        gate[j] = g[j] * up[j] * (s + gate[j] * (e * larger * larger));
        up[j] = grad_up;
    }
    store(grad_gate_up + 2 * row * width + c, gate);
    store(grad_gate_up + (2 * row + 1) * width + c, up);
}

} // namespace

void CudaOperations::do_swiglu_forward(const Tensor& gate_up, Tensor y) {
    if (y.elements() == 0)
        return;
    dispatch("swiglu_forward", y.type(), [&](auto zero) {
        using T = decltype(zero);
        dispatch_packs<T>(fits_packs<T>(columns(y), gate_up, y), [&](auto n) {
            const std::int64_t packs = y.elements() / n;
            swiglu_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                data<T>(gate_up), packs, columns(y), writable<T>(y));
            check_launch("swiglu_forward");
        });
    });
}

void CudaOperations::do_swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up,
                                              Tensor grad_gate_up) {
    if (grad_y.elements() == 0)
        return;
    dispatch("swiglu_input_gradient", grad_y.type(), [&](auto zero) {
        using T = decltype(zero);
        dispatch_packs<T>(fits_packs<T>(columns(grad_y), grad_y, gate_up, grad_gate_up), [&](auto n) {
            const std::int64_t packs = grad_y.elements() / n;
            swiglu_gradient_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                data<T>(grad_y), data<T>(gate_up), packs, columns(grad_y), writable<T>(grad_gate_up));
            check_launch("swiglu_input_gradient");
        });
    });
}

} // namespace trireme::backend
