// A fast 64-bit hash of bytes (XXH3): equal contents, equal hashes; not against malice.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// `before` chains: the hash of earlier bytes, or a seed.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t before = 0);

} // namespace trireme
