// Short vectors of float and double by the compiler's vector extension, as wide as the machine that is
// compiled for. What is summed in lanes is added up in one fixed order, so a sum depends on its inputs and
// its length alone.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace trireme::backend::simd {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// The attribute does not take template parameters, so the types are listed.
template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
    typedef float Type __attribute__((vector_size(kVectorBytes)));
    typedef std::int32_t Mask __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
    typedef double Type __attribute__((vector_size(kVectorBytes)));
    typedef std::int64_t Mask __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vec = typename VectorOf<T>::Type;
template <class T>
using Mask = typename VectorOf<T>::Mask;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
inline Vec<T> splat(T value) {
    return Vec<T>{} + value;
}
template <class T>
inline Vec<T> load(const T* from) {
    Vec<T> out;
    std::memcpy(&out, from, sizeof out);
    return out;
}
template <class T>
inline void store(T* to, const Vec<T>& value) {
    std::memcpy(to, &value, sizeof value);
}
// The first `count` lanes from memory, the others `rest`.
template <class T>
inline Vec<T> load_part(const T* from, std::int64_t count, T rest = 0) {
    Vec<T> out = splat(rest);
    for (int lane = 0; lane < count; ++lane)
        out[lane] = from[lane];
    return out;
}
template <class T>
inline void store_part(T* to, const Vec<T>& value, std::int64_t count) {
    for (int lane = 0; lane < count; ++lane)
        to[lane] = value[lane];
}

// NaN in `a` or `b`: the result is b (as the machine's own maximum).
template <class V>
inline V maximum(const V& a, const V& b) {
    return a > b ? a : b;
}

template <class T>
inline T sum_of_lanes(const Vec<T>& value) {
    std::array<T, kLanes<T>> lane;
    std::memcpy(lane.data(), &value, sizeof value);
    for (std::size_t half = kLanes<T> / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l)
            lane[l] += lane[l + half];
    return lane[0];
}
template <class T>
inline T maximum_of_lanes(const Vec<T>& value) {
    T most = value[0];
    for (int lane = 1; lane < kLanes<T>; ++lane)
        most = value[lane] > most ? value[lane] : most;
    return most;
}

// visit(first, count) for 0, kLanes, ...: whole vectors (count is the constant kLanes there), then what is
// left.
template <class T, class Visit>
inline void for_vectors(std::int64_t n, const Visit& visit) {
    std::int64_t i = 0;
    for (; i + kLanes<T> <= n; i += kLanes<T>)
        visit(i, std::integral_constant<std::int64_t, kLanes<T>>{});
    if (i < n)
        visit(i, n - i);
}
// load or load_part, as the type of `count` says; store likewise.
template <class T, class Count>
inline Vec<T> load_some(const T* from, Count count, T rest = 0) {
    if constexpr (std::is_same_v<Count, std::integral_constant<std::int64_t, kLanes<T>>>)
        return load(from);
    else
        return load_part(from, count, rest);
}
template <class T, class Count>
inline void store_some(T* to, const Vec<T>& value, Count count) {
    if constexpr (std::is_same_v<Count, std::integral_constant<std::int64_t, kLanes<T>>>)
        store(to, value);
    else
        store_part(to, value, count);
}

// e^x in float, within 2 units in the last place; below -87.3 exactly 0 (no denormals), NaN stays NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, Cody and Waite 1980), e^r by its Taylor series: the
// first term left out is r^8 / 8! < 6e-9.
inline Vec<float> exp(const Vec<float>& x) {
    constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
    constexpr float kLowest = -87.33654F, kHighest = 88.7228394F;
    constexpr float kRound = 12582912.0F; // 1.5 * 2^23: adding it rounds to the nearest integer
    Vec<float> bounded = x < kLowest ? splat(kLowest) : x;
    bounded = bounded > kHighest ? splat(kHighest) : bounded;
    const Vec<float> shifted = bounded * kLog2E + kRound;
    const Vec<float> n = shifted - kRound;
    const Vec<float> r = (bounded - n * kLn2High) - n * kLn2Low;
    Vec<float> p = r * (1.0F / 5040) + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    // 2^n in two factors, since n = 128 occurs just below the overflow.
    const Mask<float> power = std::bit_cast<Mask<float>>(shifted) - std::bit_cast<std::int32_t>(kRound);
    const Mask<float> half = power >> 1;
    p = p * std::bit_cast<Vec<float>>((half + 127) << 23) *
        std::bit_cast<Vec<float>>((power - half + 127) << 23);
    p = x > kHighest ? splat(std::numeric_limits<float>::infinity()) : p;
    return x < kLowest ? splat(0.0F) : p;
}
inline Vec<double> exp(const Vec<double>& x) {
    Vec<double> out{};
    for (int lane = 0; lane < kLanes<double>; ++lane)
        out[lane] = std::exp(x[lane]);
    return out;
}

} // namespace trireme::backend::simd
