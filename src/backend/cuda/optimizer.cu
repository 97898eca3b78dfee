// The gradient norm's sum of squares (fp64, fixed order), the factor that follows from it, and AdamW with
// that factor in device memory.
#include <cmath>
#include <limits>

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

// In the steps of the CPU's, none of them fused, so that the bits are the same.
__global__ void factor_kernel(const double* squared_norm, FactorRule rule, double* factor) {
    const double norm = __dmul_rn(sqrt(*squared_norm), rule.scale);
    const double clip = rule.clip_norm > 0 ? fmin(1.0, rule.clip_norm / __dadd_rn(norm, 1e-6)) : 1.0;
    *factor = isfinite(norm) ? rule.scale * clip : std::numeric_limits<double>::quiet_NaN();
}

struct AdamConstants {
    float learning_rate, beta1, beta2, rest1, rest2, correction1, correction2, epsilon, decay;
};

// Master weights beside weights, which may be null, or the rest of them (M is int16) beside bf16 weights.
template <class M, class W, int N>
__global__ void adam_kernel(std::int64_t packs, AdamConstants k, const double* factor, M* master,
                            const float* gradient, float* moment1, float* moment2, W* weights) {
    constexpr bool kSplit = std::is_same_v<M, std::int16_t>;
    const std::int64_t i = global_thread() * N;
    const auto by = static_cast<float>(*factor);
    if (i >= packs * N || !isfinite(*factor))
        return;
    float w[N], g[N], m[N], v[N];
    load(master + i, w);
    if constexpr (kSplit) {
        float high[N];
        load(weights + i, high);
#pragma unroll
        for (int j = 0; j < N; ++j)
            w[j] = __uint_as_float(__float_as_uint(high[j]) +
                                   static_cast<std::uint32_t>(static_cast<std::int32_t>(w[j])));
    }
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
    if constexpr (kSplit) { // SplitFloat (dtype.hpp); a rest is exact as a float, and so is what bf16 keeps
        float rest[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const std::uint32_t bits = __float_as_uint(w[j]);
            rest[j] = isnan(w[j]) ? 0 : static_cast<std::int16_t>(bits & 0xFFFFu);
            w[j] = isnan(w[j]) ? w[j] : __uint_as_float((bits + 0x8000u) & 0xFFFF0000u);
        }
        store(master + i, rest);
        store(weights + i, w);
    } else {
        store(master + i, w);
        if (weights != nullptr)
            store(weights + i, w);
    }
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

void CudaOperations::do_update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor) {
    factor_kernel<<<1, 1, 0, stream_>>>(data<double>(squared_norm), rule, writable<double>(factor));
    check_launch("update_factor");
}

void CudaOperations::do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                                    Tensor weights, const Tensor& factor, const Adam& adam) {
    if (master.elements() == 0)
        return;
    const bool split = master.type() == DType::i16;
    if (master.type() != DType::f32 && !split)
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
    const auto launch = [&](auto master_zero, auto zero) {
        using M = decltype(master_zero);
        using W = decltype(zero);
        dispatch_packs<float>(
            fits_packs<W>(master.elements(), master, gradient, moment1, moment2, weights), [&](auto n) {
                const std::int64_t packs = master.elements() / n;
                adam_kernel<M, W, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                    packs, constants, data<double>(factor), writable<M>(master), data<float>(gradient),
                    writable<float>(moment1), writable<float>(moment2), writable<W>(weights));
                check_launch("adam_update");
            });
    };
    if (split)
        launch(std::int16_t{}, bf16{});
    else
        dispatch("adam_update", weights.defined() ? weights.type() : DType::f32,
                 [&](auto zero) { launch(float{}, zero); });
}

} // namespace trireme::backend
