// The gradient norm's sum of squares (fp64, fixed order) and AdamW with its factor in device memory.
#include <cmath>

#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

constexpr int kWarps = kThreads / kWarp;
using cuda_scratch::kSquaresBlocks;

template <class T>
__global__ void squares_kernel(const T* x, std::int64_t count, double* partial) {
    double sum = 0;
    for (std::int64_t i = global_thread(); i < count; i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
        double value;
        if constexpr (std::is_same_v<T, double>)
            value = x[i];
        else
            value = static_cast<double>(widen(x[i]));
        sum += value * value;
    }
    sum = over_group<kWarps>(sum, Sum{});
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void squares_total_kernel(const double* partial, int count, double* result, GradWrite write) {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
        sum += partial[i];
    sum = over_group<kWarps>(sum, Sum{});
    if (threadIdx.x == 0)
        *result = write == GradWrite::accumulate ? *result + sum : sum;
}

struct AdamConstants {
    float learning_rate, beta1, beta2, rest1, rest2, correction1, correction2, epsilon, decay;
};

// weights may be null.
template <class W, int N>
__global__ void adam_kernel(std::int64_t packs, AdamConstants k, const double* factor, float* master,
                            const float* gradient, float* moment1, float* moment2, W* weights) {
    const std::int64_t i = global_thread() * N;
    const auto by = static_cast<float>(*factor);
    if (i >= packs * N || !isfinite(*factor))
        return;
    float w[N], g[N], m[N], v[N];
    load(master + i, w);
    load(gradient + i, g);
    load(moment1 + i, m);
    load(moment2 + i, v);
#pragma unroll
    for (int j = 0; j < N; ++j) {
        g[j] *= by;
        m[j] = k.beta1 * m[j] + k.rest1 * g[j];
        v[j] = k.beta2 * v[j] + k.rest2 * g[j] * g[j];
        w[j] -= k.learning_rate *
                ((m[j] / k.correction1) / (sqrtf(v[j] / k.correction2) + k.epsilon) + k.decay * w[j]);
    }
    store(moment1 + i, m);
    store(moment2 + i, v);
    store(master + i, w);
    if (weights != nullptr)
        store(weights + i, w);
}

} // namespace

void CudaOperations::do_sum_of_squares(const Tensor& x, Tensor result, GradWrite write) {
    dispatch_stored("sum_of_squares", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const auto blocks = static_cast<int>(std::max<std::int64_t>(
            1, std::min<std::int64_t>(kSquaresBlocks, blocks_for(x.elements(), 4 * kThreads))));
        double* const partial = scratch_.of<double>(blocks);
        squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(data<T>(x), x.elements(),
                                                                                partial);
        check_launch("sum_of_squares");
        squares_total_kernel<<<1, kThreads, 0, stream_>>>(partial, blocks, writable<double>(result), write);
        check_launch("sum_of_squares");
    });
}

void CudaOperations::do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                                    Tensor weights, const Tensor& factor, const Adam& adam) {
    if (master.elements() == 0)
        return;
    if (master.type() != DType::f32)
        refuse_type("adam_update", master.type());
    const auto step = static_cast<double>(adam.step);
    const AdamConstants constants{static_cast<float>(adam.learning_rate),
                                  static_cast<float>(adam.beta1),
                                  static_cast<float>(adam.beta2),
                                  static_cast<float>(1 - adam.beta1),
                                  static_cast<float>(1 - adam.beta2),
                                  static_cast<float>(1 - std::pow(adam.beta1, step)),
                                  static_cast<float>(1 - std::pow(adam.beta2, step)),
                                  static_cast<float>(adam.epsilon),
                                  static_cast<float>(adam.weight_decay)};
    dispatch("adam_update", weights.defined() ? weights.type() : DType::f32, [&](auto zero) {
        using W = decltype(zero);
        dispatch_packs<float>(
            fits_packs<W>(master.elements(), master, gradient, moment1, moment2, weights), [&](auto n) {
                const std::int64_t packs = master.elements() / n;
                adam_kernel<W, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                    packs, constants, data<double>(factor), writable<float>(master), data<float>(gradient),
                    writable<float>(moment1), writable<float>(moment2), writable<W>(weights));
                check_launch("adam_update");
            });
    });
}

} // namespace trireme::backend
