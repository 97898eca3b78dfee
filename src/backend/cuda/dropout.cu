// Dropout with bias and residual on hidden states, and its gradient, in one pass each.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"
#include "backend/cuda/random.cuh"

namespace trireme::backend {
namespace {

// Multipliers of N consecutive channels from c of row r = t * batch + b.
template <int N>
__device__ void mask_of(const DeviceDropout& dropout, std::int64_t batch, std::int64_t r, std::int64_t c,
                        float (&mask)[N]) {
    const auto position = dropout.first_position + static_cast<std::uint32_t>(r / batch);
    float words[4];
    if constexpr (N == 1) {
        dropout.multipliers(r % batch, position, static_cast<std::uint32_t>(c / 4), 0, words);
        mask[0] = words[0];
#pragma unroll
        for (int j = 1; j < 4; ++j)
            if (c % 4 == j)
                mask[0] = words[j];
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            dropout.multipliers(r % batch, position, static_cast<std::uint32_t>((c + i) / 4), 0, words);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                mask[i + j] = words[j];
        }
    }
}

// grad_x is this without bias and residual. bias and residual may be null.
template <class T, int N>
__global__ void dropout_kernel(const T* x, const T* bias, const T* residual, DeviceDropout dropout,
                               std::int64_t packs, std::int64_t batch, std::int64_t width, T* out) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    const std::int64_t r = i / width, c = i - r * width;
    float v[N];
    load(x + i, v);
    if (bias != nullptr) {
        float shift[N];
        load(bias + c, shift);
#pragma unroll
        for (int j = 0; j < N; ++j)
            v[j] += shift[j];
    }
    if (dropout.active) {
        float mask[N];
        mask_of(dropout, batch, r, c, mask);
#pragma unroll
        for (int j = 0; j < N; ++j)
            v[j] *= mask[j];
    }
    if (residual != nullptr) {
        float carried[N];
        load(residual + i, carried);
#pragma unroll
        for (int j = 0; j < N; ++j)
            v[j] = carried[j] + v[j];
    }
    store(out + i, v);
}

void launch(cudaStream_t stream, const char* operation, const Tensor& x, const Tensor& bias,
            const Tensor& residual, const Dropout& dropout, const Tensor& out) {
    if (x.elements() == 0)
        return;
    dispatch(operation, x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = x.shape()[2];
        dispatch_packs<T>(fits_packs<T>(width, x, bias, residual, out), [&](auto n) {
            const std::int64_t packs = x.elements() / n;
            dropout_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream>>>(
                data<T>(x), data<T>(bias), data<T>(residual), DeviceDropout(dropout), packs, x.shape()[1],
                width, writable<T>(out));
            check_launch(operation);
        });
    });
}

} // namespace

void CudaOperations::do_bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                              const Dropout& dropout, Tensor out) {
    launch(stream_, "bias_dropout_residual", x, bias, residual, dropout, out);
}

void CudaOperations::do_dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x) {
    launch(stream_, "dropout_gradient", grad_out, {}, {}, dropout, grad_x);
}

} // namespace trireme::backend
