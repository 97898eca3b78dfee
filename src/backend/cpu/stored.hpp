// Types as stored and as computed in: bf16 and fp16 lie in memory, are widened to float when loaded and
// rounded to nearest even when stored; float and double are computed as they are.
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
using Wide = std::conditional_t<kIsNarrow<S>, float, S>;

// compute(zero of the two-byte type).
template <class Compute>
void dispatch_narrow(DType type, const Compute& compute) {
    if (type == DType::bf16)
        compute(BFloat16{});
    else
        compute(Float16{});
}
// As dispatch_float, with bf16 and fp16.
template <class Compute>
void dispatch_stored(std::string_view operation, DType type, const Compute& compute) {
    if (is_narrow(type))
        dispatch_narrow(type, compute);
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

// The same values and the same rounding as the scalar types (dtype.hpp), lane by lane.
template <class S>
inline Vec<float> widen(const HalfWords& bits) {
    const Words wide = __builtin_convertvector(bits, Words);
    if constexpr (std::is_same_v<S, BFloat16>)
        return std::bit_cast<Vec<float>>(wide << 16);
    else {
        const Words size = (wide & 0x7FFFu) << 13;
        const Words value = std::bit_cast<Words>(std::bit_cast<Vec<float>>(size) * 0x1p112F);
        const Words special = size >= 0x0F800000u ? Words{} + 0x7F800000u : Words{};
        return std::bit_cast<Vec<float>>(value | special | (wide & 0x8000u) << 16);
    }
}
template <class S>
inline HalfWords narrow(const Vec<float>& value) {
    const Words wide = std::bit_cast<Words>(value), size = wide & 0x7FFFFFFFu;
    if constexpr (std::is_same_v<S, BFloat16>) {
        const Words rounded = (wide + 0x7FFFu + ((wide >> 16) & 1u)) >> 16;
        const Words quiet = (wide >> 16) | 0x40u;
        return __builtin_convertvector(size > 0x7F800000u ? quiet : rounded, HalfWords);
    } else {
        const Words normal = (size - (112u << 23) + 0xFFFu + ((size >> 13) & 1u)) >> 13;
        const Words subnormal = std::bit_cast<Words>(std::bit_cast<Vec<float>>(size) + 0.5F) - 0x3F000000u;
        const Words special = size > 0x7F800000u ? Words{} + 0x7E00u : Words{} + 0x7C00u;
        const Words finite = size < (113u << 23) ? subnormal : normal;
        return __builtin_convertvector((size >= 0x477FF000u ? special : finite) | ((wide >> 16) & 0x8000u),
                                       HalfWords);
    }
}

// load_some and store_some for vectors that are stored in two bytes; lanes beyond `count` are `rest`.
template <class S, class Count>
requires kIsNarrow<S>
inline Vec<float> load_some(const S* from, Count count, float rest = 0) {
    if constexpr (std::is_same_v<Count, std::integral_constant<std::int64_t, kLanes<float>>>) {
        HalfWords bits;
        std::memcpy(&bits, from, sizeof bits);
        return widen<S>(bits);
    } else {
        Vec<float> out = splat(rest);
        for (std::int64_t lane = 0; lane < count; ++lane)
            out[lane] = static_cast<float>(from[lane]);
        return out;
    }
}
template <class S, class Count>
requires kIsNarrow<S>
inline void store_some(S* to, const Vec<float>& value, Count count) {
    const HalfWords bits = narrow<S>(value);
    if constexpr (std::is_same_v<Count, std::integral_constant<std::int64_t, kLanes<float>>>)
        std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
    else
        for (std::int64_t lane = 0; lane < count; ++lane)
            to[lane].bits = bits[lane];
}

} // namespace simd

// to[i] = from[i] for i < n, exact or rounded once.
template <class S>
void widen_values(const S* from, std::int64_t n, float* to) {
    simd::for_vectors<float>(n, [&](std::int64_t i, auto count) {
        simd::store_some(to + i, simd::load_some(from + i, count), count);
    });
}
template <class S>
void narrow_values(const float* from, std::int64_t n, S* to) {
    simd::for_vectors<float>(n, [&](std::int64_t i, auto count) {
        simd::store_some(to + i, simd::load_some(from + i, count), count);
    });
}

} // namespace trireme::backend
