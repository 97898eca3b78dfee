// Element types of safetensors and conversion between them, by way of double (exact for every narrower type)
// and, where a type is narrower than fp32, of fp32.
#include <bit>
#include <cstring>

#include "trireme/base/error.hpp"
#include "trireme/storage/safetensors.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme::storage {
namespace {

// IEEE binary16: sign, 5 bits of exponent (bias 15), 10 of mantissa.
float from_half(std::uint16_t bits) {
    const auto sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1Fu, mantissa = bits & 0x3FFu;
    if (exponent == 0x1F)
        return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
    if (exponent == 0) { // zero, or a multiple of 2^-24
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// To nearest even; from 65520 on infinity; NaN stays NaN.
std::uint16_t to_half(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((wide >> 16) & 0x8000u);
    const std::uint32_t magnitude = wide & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return static_cast<std::uint16_t>(sign | 0x7C00u | 0x200u | ((magnitude >> 13) & 0x3FFu));
    if (magnitude >= 0x477FF000u) // 65520
        return static_cast<std::uint16_t>(sign | 0x7C00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24, rounded by an addition to 2^-1
        const float rounded = std::bit_cast<float>(magnitude) + 0.5f; // the last bit of [0.5, 1) is 2^-24
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000u));
    }
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
template <class T>
void store(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

double read_as_double(const std::byte* at, FloatType type) {
    switch (type) {
    case FloatType::f64:
        return load<double>(at);
    case FloatType::f32:
        return load<float>(at);
    case FloatType::bf16:
        return static_cast<float>(load<BFloat16>(at));
    default:
        return from_half(load<std::uint16_t>(at));
    }
}

void write_double(double value, std::byte* at, FloatType type) {
    switch (type) {
    case FloatType::f64:
        return store(at, value);
    case FloatType::f32:
        return store(at, static_cast<float>(value));
    case FloatType::bf16:
        return store(at, BFloat16(static_cast<float>(value)));
    default:
        return store(at, to_half(static_cast<float>(value)));
    }
}

} // namespace

std::string_view name(FloatType type) {
    switch (type) {
    case FloatType::f16:
        return "F16";
    case FloatType::bf16:
        return "BF16";
    case FloatType::f32:
        return "F32";
    case FloatType::f64:
        return "F64";
    case FloatType::other:
        break;
    }
    return "?";
}

std::int64_t size_bytes(FloatType type) {
    switch (type) {
    case FloatType::f16:
    case FloatType::bf16:
        return 2;
    case FloatType::f32:
        return 4;
    case FloatType::f64:
        return 8;
    case FloatType::other:
        break;
    }
    return 1;
}

void convert(std::span<const std::byte> from, FloatType from_type, std::span<std::byte> to,
             FloatType to_type) {
    const auto from_size = static_cast<std::size_t>(size_bytes(from_type)),
               to_size = static_cast<std::size_t>(size_bytes(to_type));
    const std::size_t elements = from.size() / from_size;
    TRIREME_ASSERT(elements * from_size == from.size() && elements * to_size == to.size(), from.size(),
                   " bytes of ", name(from_type), " into ", to.size(), " of ", name(to_type));
    if (from_type == to_type) {
        if (!from.empty())
            std::memcpy(to.data(), from.data(), from.size());
        return;
    }
    TRIREME_ASSERT(from_type != FloatType::other && to_type != FloatType::other, "no float type");
    for (std::size_t i = 0; i < elements; ++i)
        write_double(read_as_double(from.data() + i * from_size, from_type), to.data() + i * to_size,
                     to_type);
}

} // namespace trireme::storage
