// XXH3, inlined so that nothing has to be linked; scalar, since g++ 12 warns about its AVX-512 intrinsics.
#define XXH_INLINE_ALL
#define XXH_VECTOR 0
#include <xxhash.h>

#include "trireme/base/hash.hpp"

namespace trireme {

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t before) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
}

} // namespace trireme
