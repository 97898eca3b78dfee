// What the kernels share: float, bf16 and fp16 loaded as float in packs of 16 bytes, sums over warps and
// blocks in a fixed order, and the choice of a kernel by element type and by alignment. Sums never use
// atomics.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#include "backend/cuda/check.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::backend {

using bf16 = __nv_bfloat16;
using fp16 = __half;
inline constexpr int kWarp = 32;
inline constexpr int kThreads = 256; // of most kernels

// --- device
// ---------------------------------------------------------------------------------------------------------
template <class T>
__device__ inline float widen(T value) {
    if constexpr (std::is_same_v<T, bf16>)
        return __bfloat162float(value);
    else if constexpr (std::is_same_v<T, fp16>)
        return __half2float(value);
    else
        return static_cast<float>(value);
}
template <class T>
__device__ inline T narrow(float value) {
    if constexpr (std::is_same_v<T, bf16>)
        return __float2bfloat16_rn(value);
    else if constexpr (std::is_same_v<T, fp16>)
        return __float2half_rn(value);
    else
        return static_cast<T>(value);
}

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T values[N];
};
// Elements of one 16-byte access, or all N if they are fewer.
template <class T, int N>
inline constexpr int kAccess = N < 16 / static_cast<int>(sizeof(T)) ? N : 16 / static_cast<int>(sizeof(T));

// N > 1 needs 16-byte aligned addresses.
template <int N, class T>
__device__ inline void load(const T* from, float (&to)[N]) {
    constexpr int kStep = kAccess<T, N>;
#pragma unroll
    for (int i = 0; i < N; i += kStep) {
        const auto pack = *reinterpret_cast<const Pack<T, kStep>*>(from + i);
#pragma unroll
        for (int j = 0; j < kStep; ++j)
            to[i + j] = widen(pack.values[j]);
    }
}
template <int N, class T>
__device__ inline void store(T* to, const float (&from)[N]) {
    constexpr int kStep = kAccess<T, N>;
#pragma unroll
    for (int i = 0; i < N; i += kStep) {
        Pack<T, kStep> pack;
#pragma unroll
        for (int j = 0; j < kStep; ++j)
            pack.values[j] = narrow<T>(from[i + j]);
        *reinterpret_cast<Pack<T, kStep>*>(to + i) = pack;
    }
}

// bf16 has 8 bits: the fast exponential (2 units in the last place of a float) is exact enough for it.
template <class T>
__device__ inline float exponential(float x) {
    if constexpr (std::is_same_v<T, bf16>)
        return __expf(x);
    else
        return expf(x);
}

// e^(x - base): one multiplication and one exponential of 2 in bf16's case. The rounding of base * log2(e) is
// a common factor of a row and leaves quotients alone.
template <class T>
__device__ inline float exponential_above(float x, float base) {
    if constexpr (std::is_same_v<T, bf16>) {
        constexpr float kLog2E = 1.44269504088896340736f;
        float power;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(x, kLog2E, -base * kLog2E)));
        return power;
    } else {
        return expf(x - base);
    }
}

struct Sum {
    template <class T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
};
struct Maximum {
    __device__ float operator()(float a, float b) const { return a > b || isnan(a) ? a : b; }
};

// All lanes get the result.
template <class T, class Combine>
__device__ inline T over_warp(T value, Combine combine) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
        value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
    return value;
}

// Over kWarps consecutive warps of a block of kThreads; all threads of the group get the result. kWarps is 1
// or the whole block (then every thread must come here).
template <int kWarps, class T, class Combine>
__device__ inline T over_group(T value, Combine combine) {
    value = over_warp(value, combine);
    if constexpr (kWarps > 1) {
        __shared__ T of_warp[kWarps];
        __syncthreads(); // of_warp may still be read by an earlier call
        if (threadIdx.x % kWarp == 0)
            of_warp[threadIdx.x / kWarp] = value;
        __syncthreads();
        value = of_warp[0];
        for (int w = 1; w < kWarps; ++w)
            value = combine(value, of_warp[w]);
    }
    return value;
}

// --- host, apart from the functions of the same names that CPU kernels have
// -----------------------------------------------------------------------------------------------------------
namespace cuda {

template <class T>
const T* data(const Tensor& tensor) {
    return static_cast<const T*>(tensor.data());
}
template <class T>
T* writable(const Tensor& tensor) {
    return static_cast<T*>(tensor.data());
}
inline std::int64_t columns(const Tensor& tensor) {
    return tensor.shape()[tensor.shape().rank() - 1];
}
inline std::int64_t rows(const Tensor& tensor) {
    return columns(tensor) == 0 ? 0 : tensor.elements() / columns(tensor);
}

[[noreturn]] inline void refuse_type(const char* operation, DType type) {
    throw Error(ErrorCategory::usage,
                concat(operation, " on ", name(type),
                       " is not in the CUDA backend, which computes bf16, fp16 and fp32"),
                {"try: --bf16, --fp16 or --params-dtype fp32, or --device cpu for fp64"});
}

// compute(zero of the element type)
template <class Compute>
void dispatch(const char* operation, DType type, const Compute& compute) {
    if (type == DType::f32)
        compute(float{});
    else if (type == DType::bf16)
        compute(bf16{});
    else if (type == DType::f16)
        compute(fp16{});
    else
        refuse_type(operation, type);
}
// Also fp64: for operations that only move, add and scale.
template <class Compute>
void dispatch_stored(const char* operation, DType type, const Compute& compute) {
    if (type == DType::f64)
        compute(double{});
    else
        dispatch(operation, type, compute);
}

// Whether rows of `width` elements of T can be walked in packs of 16 bytes in all tensors (undefined ones do
// not count).
template <class T, class... Tensors>
bool fits_packs(std::int64_t width, const Tensors&... tensors) {
    const auto aligned = [](const Tensor& tensor) {
        return reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0;
    };
    return width % (16 / static_cast<std::int64_t>(sizeof(T))) == 0 && (aligned(tensors) && ...);
}
// compute(integral constant N): the elements that a thread takes at once.
template <class T, class Compute>
void dispatch_packs(bool packs, const Compute& compute) {
    if (packs)
        compute(std::integral_constant<int, 16 / static_cast<int>(sizeof(T))>{});
    else
        compute(std::integral_constant<int, 1>{});
}

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
    return static_cast<unsigned>((count + per_block - 1) / per_block);
}

} // namespace cuda
using namespace cuda;

__device__ inline std::int64_t global_thread() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

} // namespace trireme::backend
