// Element types. bf16 and fp16 are stored, never computed in: the CPU backend widens them to float.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

constexpr std::int64_t size_bytes(DType type) {
    switch (type) {
    case DType::f64:
    case DType::i64:
        return 8;
    case DType::f32:
    case DType::i32:
        return 4;
    case DType::bf16:
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
    case DType::i32:
        return "int32";
    case DType::i64:
        return "int64";
    case DType::u8:
        return "uint8";
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
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

// The type of norm statistics, softmax statistics and losses that go with activations of `type`:
// fp64 for fp64, else fp32.
constexpr DType statistics_type(DType type) {
    return type == DType::f64 ? DType::f64 : DType::f32;
}

} // namespace trireme
