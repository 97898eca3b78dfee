// Element types. bf16 and fp16 are stored, never computed in: the CPU backend widens them to float.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace trireme {

enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8, i16 };

constexpr std::int64_t size_bytes(DType type) {
    switch (type) {
    case DType::f64:
    case DType::i64:
        return 8;
    case DType::f32:
    case DType::i32:
        return 4;
    case DType::bf16:
    case DType::f16:
    case DType::i16:
        return 2;
    case DType::u8:
        return 1;
    }
    return 0;
}

constexpr std::string_view name(DType type) {
    switch (type) {
    case DType::f32:
        return "fp32";
    case DType::f64:
        return "fp64";
    case DType::bf16:
        return "bf16";
    case DType::f16:
        return "fp16";
    case DType::i32:
        return "int32";
    case DType::i64:
        return "int64";
    case DType::u8:
        return "uint8";
    case DType::i16:
        return "int16";
    }
    return "?";
}

// The upper half of a float, rounded to nearest even; NaN stays NaN.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    explicit BFloat16(float value) {
        const auto wide = std::bit_cast<std::uint32_t>(value);
        const bool is_nan = (wide & 0x7FFFFFFFu) > 0x7F800000u;
        bits = is_nan ? static_cast<std::uint16_t>((wide >> 16) | 0x40u)
                      : static_cast<std::uint16_t>((wide + 0x7FFFu + ((wide >> 16) & 1u)) >> 16);
    }
    explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE half precision: 5 bits of exponent, 10 of mantissa, rounded to nearest even. Beyond 65504 it is
// infinite, below 2^-24 zero. NaN stays NaN.
struct Float16 {
    std::uint16_t bits = 0;

    Float16() = default;
    explicit Float16(float value) {
        constexpr std::uint32_t kInfinity = 0x7F800000u, kLeastNormal = 113u << 23; // 2^-14
        constexpr std::uint32_t kOverflow = 0x477FF000u;                            // 65520: halfway to 65536
        const auto wide = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t size = wide & 0x7FFFFFFFu;
        std::uint32_t half = 0;
        if (size > kInfinity)
            half = 0x7E00u;
        else if (size >= kOverflow)
            half = 0x7C00u;
        else if (size < kLeastNormal) // the last place of 0.5 is 2^-24, as of every subnormal half
            half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3F000000u;
        else
            half = (size - (112u << 23) + 0xFFFu + ((size >> 13) & 1u)) >> 13;
        bits = static_cast<std::uint16_t>(half | ((wide >> 16) & 0x8000u));
    }
    explicit operator float() const {
        const std::uint32_t size = static_cast<std::uint32_t>(bits & 0x7FFFu) << 13;
        const float value = std::bit_cast<float>(size) * 0x1p112F; // exact; 2^16 and more: not finite
        const std::uint32_t special = size >= 0x0F800000u ? 0x7F800000u : 0u;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | special |
                                    (static_cast<std::uint32_t>(bits & 0x8000u) << 16));
    }
};

// A float cut in two without loss: the nearest bf16 (halves away from zero), and what its bits lack of the
// float's: bits = (high << 16) + rest. To the nearest even, as bf16 is rounded elsewhere, there would be one
// rest too many for 16 bits.
struct SplitFloat {
    BFloat16 high;
    std::int16_t rest = 0;

    SplitFloat() = default;
    explicit SplitFloat(float value) {
        const auto wide = std::bit_cast<std::uint32_t>(value);
        const bool is_nan = (wide & 0x7FFFFFFFu) > 0x7F800000u;
        high.bits = static_cast<std::uint16_t>(is_nan ? (wide >> 16) | 0x40u : (wide + 0x8000u) >> 16);
        rest = is_nan ? std::int16_t{0} : static_cast<std::int16_t>(wide & 0xFFFFu);
    }
    SplitFloat(BFloat16 of_high, std::int16_t of_rest) : high(of_high), rest(of_rest) {}
    explicit operator float() const {
        return std::bit_cast<float>((static_cast<std::uint32_t>(high.bits) << 16) +
                                    static_cast<std::uint32_t>(static_cast<std::int32_t>(rest)));
    }
};

// Types of two bytes that are stored and never computed in.
template <class T>
inline constexpr bool kIsNarrow = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
constexpr bool is_narrow(DType type) {
    return type == DType::bf16 || type == DType::f16;
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
    static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
    static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<BFloat16> {
    static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
    static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int32_t> {
    static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
    static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
    static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<std::int16_t> {
    static constexpr DType value = DType::i16;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

// The type of norm statistics, softmax statistics and losses that go with activations of `type`:
// fp64 for fp64, else fp32.
constexpr DType statistics_type(DType type) {
    return type == DType::f64 ? DType::f64 : DType::f32;
}

constexpr bool is_float(DType type) {
    return is_narrow(type) || type == DType::f32 || type == DType::f64;
}

// use(zero of the float type): for host code that walks over elements of any of them.
template <class Use>
void with_float_type(DType type, const Use& use) {
    switch (type) {
    case DType::f64:
        return use(double{});
    case DType::bf16:
        return use(BFloat16{});
    case DType::f16:
        return use(Float16{});
    default:
        return use(float{});
    }
}

} // namespace trireme
