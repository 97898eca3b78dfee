// How attention is cut into blocks, the same forward and backward, and where heads lie in qkv [T, B, H + 2 G,
// D].
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/gemm.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

// A block of scores is kQueryBlock x kKeyBlock: it stays in the second-level cache in fp32 and fp64 alike.
// Few queries, because a causal block computes about half a square of them in vain; many keys, because
// products and loops over rows run faster when long. Every query meets a key in its first block.
inline constexpr std::int64_t kQueryBlock = 64, kKeyBlock = 256;
static_assert(kKeyBlock % 4 == 0, "dropout draws four keys at a time");

// Rows of one head: position t at data + t * stride. T is const or not.
template <class T>
struct HeadRows {
    T* data;
    std::int64_t stride;

    T* at(std::int64_t t) const { return data + t * stride; }
    MatrixView<std::remove_const_t<T>> from(std::int64_t t, Transpose transpose = Transpose::no) const {
        return {at(t), stride, transpose};
    }
};

// [T, B, heads, D]: head `head` of row b.
template <class T>
HeadRows<T> head_rows(T* data, std::int64_t batch, std::int64_t heads, std::int64_t head_dim, std::int64_t b,
                      std::int64_t head) {
    return {data + (b * heads + head) * head_dim, batch * heads * head_dim};
}

// Keys [0, end) take part in a block of queries that ends before query `query_end`.
inline std::int64_t key_end(Causal causal, std::int64_t length, std::int64_t query_end) {
    return causal == Causal::yes ? std::min(length, query_end) : length;
}
// Of the `count` keys from `first_key`, so many are seen by `query`.
inline std::int64_t visible_keys(Causal causal, std::int64_t query, std::int64_t first_key,
                                 std::int64_t count) {
    return causal == Causal::yes ? std::clamp<std::int64_t>(query - first_key + 1, 0, count) : count;
}

} // namespace trireme::backend
