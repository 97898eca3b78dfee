// The fixed numbers of the .idx format, shared by reader and writer
// (include/trireme/data/indexed_dataset.hpp).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace trireme::data {

static_assert(std::endian::native == std::endian::little,
              "the files are little-endian and mapped as they are");

inline constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
inline constexpr std::uint64_t kIndexVersion = 1;
inline constexpr std::int64_t kIndexHeaderBytes = 34;
inline constexpr std::int64_t kSequenceCountOffset = 18;

inline std::string index_path(const std::string& prefix) {
    return prefix + ".idx";
}
inline std::string token_path(const std::string& prefix) {
    return prefix + ".bin";
}

// Values in the files are not aligned.
template <class Value>
Value load(std::span<const std::byte> bytes, std::int64_t offset) {
    Value value;
    std::memcpy(&value, bytes.data() + offset, sizeof(Value));
    return value;
}

} // namespace trireme::data
