// How attention is cut into blocks, the same forward and backward, where heads lie in qkv [T, B, H + 2 G, D],
// and how their rows become operands of products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "backend/cpu/gemm.hpp"
#include "backend/cpu/stored.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

// A block of scores is kQueryBlock x kKeyBlock: it stays in the second-level cache in fp32 and fp64 alike.
// Few queries, because a causal block computes about half a square of them in vain; many keys, because
// products and loops over rows run faster when long.
inline constexpr std::int64_t kQueryBlock = 64, kKeyBlock = 256;
static_assert(kKeyBlock % 4 == 0, "dropout draws four keys at a time");

// Rows of one head: position t at data + t * stride. S is const or not.
template <class S>
struct HeadRows {
    S* data;
    std::int64_t stride;

    S* at(std::int64_t t) const { return data + t * stride; }
};

// [T, B, heads, D]: head `head` of row b.
template <class S>
HeadRows<S> head_rows(S* data, std::int64_t batch, std::int64_t heads, std::int64_t head_dim, std::int64_t b,
                      std::int64_t head) {
    return {data + (b * heads + head) * head_dim, batch * heads * head_dim};
}

// Whether rows of S are multiplied where they lie; bf16 is widened into scratch first.
template <class S>
inline constexpr bool kInPlace = std::is_same_v<S, Wide<S>>;

// Rows [t, t + count) as an operand: where they lie, or widened into `buffer` [count, D].
template <class S>
HeadRows<const Wide<S>> operand(HeadRows<const S> rows, std::int64_t t, std::int64_t count,
                                std::int64_t head_dim, Wide<S>* buffer) {
    if constexpr (kInPlace<S>)
        return {rows.at(t), rows.stride};
    else {
        for (std::int64_t i = 0; i < count; ++i)
            widen_values(rows.at(t + i), head_dim, buffer + i * head_dim);
        return {buffer, head_dim};
    }
}
// Where rows [t, ...) of a result are summed up: in place, or in `buffer`, from where write_back() rounds
// them.
template <class S>
HeadRows<Wide<S>> sums(HeadRows<S> rows, std::int64_t t, std::int64_t head_dim, Wide<S>* buffer) {
    if constexpr (kInPlace<S>)
        return {rows.at(t), rows.stride};
    else
        return {buffer, head_dim};
}
template <class S>
void write_back(HeadRows<Wide<S>> summed, HeadRows<S> rows, std::int64_t t, std::int64_t count,
                std::int64_t head_dim) {
    if constexpr (!kInPlace<S>)
        for (std::int64_t i = 0; i < count; ++i)
            narrow_values(summed.at(i), head_dim, rows.at(t + i));
}

template <class T>
MatrixView<T> matrix(HeadRows<const T> rows, Transpose transpose = Transpose::no) {
    return {rows.data, rows.stride, transpose};
}

// Scratch of one task, handed out piece by piece.
template <class T>
struct Pieces {
    T* next;

    T* take(std::int64_t count) { return std::exchange(next, next + count); }
};

// The keys that a query of row b sees: from its document's first position, causal ones up to itself.
struct KeyRange {
    std::int64_t begin, end;
};
class VisibleKeys {
  public:
    VisibleKeys(const Attention& attention, std::int64_t length, std::int64_t batch, std::int64_t b)
        : causal_(attention.causal), length_(length), batch_(batch),
          documents_(attention.documents.defined() ? data<std::int32_t>(attention.documents) + b : nullptr) {}

    KeyRange of(std::int64_t query) const {
        return {document(query), causal_ == Causal::yes ? query + 1 : length_};
    }
    // What queries [first, first + count) see together: documents begin in the order of positions. Begins at
    // a multiple of 16, as vectors and dropout like it.
    KeyRange of_block(std::int64_t first, std::int64_t count) const {
        return {document(first) / 16 * 16, of(first + count - 1).end};
    }
    // Of keys [first, first + count), those that `query` sees, counted from `first`.
    KeyRange within(std::int64_t query, std::int64_t first, std::int64_t count) const {
        const KeyRange all = of(query);
        const std::int64_t end = std::clamp<std::int64_t>(all.end - first, 0, count);
        return {std::clamp<std::int64_t>(all.begin - first, 0, end), end};
    }

  private:
    std::int64_t document(std::int64_t query) const {
        return documents_ == nullptr ? 0 : documents_[query * batch_];
    }

    Causal causal_;
    std::int64_t length_, batch_;
    const std::int32_t* documents_; // of row b, a step of `batch` from one position to the next
};

// Throws unless documents begin at or before each of their positions, in order.
void check_documents(const Tensor& documents);

} // namespace trireme::backend
