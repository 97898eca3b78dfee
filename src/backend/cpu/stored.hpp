// Types as stored and as computed in: bf16 lies in memory, is widened to float when loaded and rounded to
// nearest even when stored; float and double are computed as they are.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "backend/cpu/dispatch.hpp"
#include "backend/cpu/simd.hpp"

namespace trireme::backend {

// What elements of type S are computed in: the type of statistics and main gradients too.
template <class S>
using Wide = std::conditional_t<std::is_same_v<S, BFloat16>, float, S>;

// As dispatch_float, with bf16.
template <class Compute>
void dispatch_stored(std::string_view operation, DType type, const Compute& compute) {
    if (type == DType::bf16)
        compute(BFloat16{});
    else
        dispatch_float(operation, type, compute);
}

template <class S>
Wide<S> widen(S value) {
    return static_cast<Wide<S>>(value);
}
template <class S>
S narrow(Wide<S> value) {
    return static_cast<S>(value);
}

namespace simd {

typedef std::uint16_t HalfWords __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));

inline Vec<float> widen(const HalfWords& bits) {
    return std::bit_cast<Vec<float>>(__builtin_convertvector(bits, Words) << 16);
}
// The same rounding as BFloat16(float).
inline HalfWords narrow(const Vec<float>& value) {
    const Words wide = std::bit_cast<Words>(value);
    const Words rounded = (wide + 0x7FFFu + ((wide >> 16) & 1u)) >> 16;
    const Words quiet = (wide >> 16) | 0x40u;
    return __builtin_convertvector((wide & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded, HalfWords);
}

// load_some and store_some for vectors that are stored as bf16; lanes beyond `count` are `rest`.
template <class Count>
inline Vec<float> load_some(const BFloat16* from, Count count, float rest = 0) {
    if constexpr (std::is_same_v<Count, std::integral_constant<std::int64_t, kLanes<float>>>) {
        HalfWords bits;
        std::memcpy(&bits, from, sizeof bits);
        return widen(bits);
    } else {
        Vec<float> out = splat(rest);
        for (std::int64_t lane = 0; lane < count; ++lane)
            out[lane] = static_cast<float>(from[lane]);
        return out;
    }
}
template <class Count>
inline void store_some(BFloat16* to, const Vec<float>& value, Count count) {
    const HalfWords bits = narrow(value);
    if constexpr (std::is_same_v<Count, std::integral_constant<std::int64_t, kLanes<float>>>)
        std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
    else
        for (std::int64_t lane = 0; lane < count; ++lane)
            to[lane].bits = bits[lane];
}

} // namespace simd

// to[i] = from[i] for i < n, exact or rounded once.
inline void widen_values(const BFloat16* from, std::int64_t n, float* to) {
    simd::for_vectors<float>(n, [&](std::int64_t i, auto count) {
        simd::store_some(to + i, simd::load_some(from + i, count), count);
    });
}
inline void narrow_values(const float* from, std::int64_t n, BFloat16* to) {
    simd::for_vectors<float>(n, [&](std::int64_t i, auto count) {
        simd::store_some(to + i, simd::load_some(from + i, count), count);
    });
}

} // namespace trireme::backend
