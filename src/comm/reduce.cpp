// Blocks of elements are accumulated over all ranks in a small buffer, then written: the inner loop runs over
// elements and vectorises without changing any element's order of additions.
#include "comm/reduce.hpp"

#include <algorithm>
#include <array>

namespace trireme::comm {

namespace {

constexpr std::int64_t kBlock = 1024; // elements: accumulators of one block stay in the first-level cache

template <class T, class Accumulator, class Combine>
void reduce_as(std::span<const std::byte* const> parts, std::byte* out_bytes, std::int64_t count,
               Combine combine) {
    T* out = reinterpret_cast<T*>(out_bytes);
    std::array<Accumulator, kBlock> total;
    for (std::int64_t first = 0; first < count; first += kBlock) {
        const std::int64_t length = std::min(kBlock, count - first);
        const T* part = reinterpret_cast<const T*>(parts[0]) + first;
        for (std::int64_t i = 0; i < length; ++i)
            total[static_cast<std::size_t>(i)] = static_cast<Accumulator>(part[i]);
        for (std::size_t r = 1; r < parts.size(); ++r) {
            part = reinterpret_cast<const T*>(parts[r]) + first;
            for (std::int64_t i = 0; i < length; ++i)
                total[static_cast<std::size_t>(i)] =
                    combine(total[static_cast<std::size_t>(i)], static_cast<Accumulator>(part[i]));
        }
        for (std::int64_t i = 0; i < length; ++i)
            out[first + i] = static_cast<T>(total[static_cast<std::size_t>(i)]);
    }
}

struct Add {
    template <class T>
    T operator()(T a, T b) const {
        return a + b;
    }
};

struct Larger {
    template <class T>
    T operator()(T a, T b) const {
        return b > a || b != b ? b : a; // b != b: NaN; a NaN in `a` loses no comparison
    }
};

} // namespace

void reduce_in_rank_order(ReduceOp op, DType type, std::span<const std::byte* const> parts, std::byte* out,
                          std::int64_t count) {
    if (op == ReduceOp::max) {
        switch (type) {
        case DType::f32:
            return reduce_as<float, float>(parts, out, count, Larger{});
        case DType::f64:
            return reduce_as<double, double>(parts, out, count, Larger{});
        default:
            break;
        }
    } else {
        switch (type) {
        case DType::f32:
            return reduce_as<float, float>(parts, out, count, Add{});
        case DType::f64:
            return reduce_as<double, double>(parts, out, count, Add{});
        case DType::bf16:
            return reduce_as<BFloat16, float>(parts, out, count, Add{});
        case DType::f16:
            return reduce_as<Float16, float>(parts, out, count, Add{});
        case DType::i32:
            return reduce_as<std::int32_t, std::int32_t>(parts, out, count, Add{});
        case DType::i64:
            return reduce_as<std::int64_t, std::int64_t>(parts, out, count, Add{});
        case DType::u8:
        case DType::i16:
            break;
        }
    }
    TRIREME_ASSERT(false, "no such reduction of ", name(type));
}

} // namespace trireme::comm
