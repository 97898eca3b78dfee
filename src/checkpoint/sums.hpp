// Sums that any partition of a tensor can compute: a hash of (global index, bits) for each element, added
// modulo 2^64. So whoever writes adds up what it wrote, whoever reads what it read, on any layout, and both
// are compared without the tensor ever being in one place. Kept for each range of 4 Mi elements; a tensor's
// sum is that of its ranges. docs/checkpoint-format.md defines the hash for other readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/host_group.hpp"
#include "trireme/tensor/dtype.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::checkpoint {

inline constexpr std::int64_t kRangeElements = std::int64_t{1} << 22;

// What moves between memory and file moves by so much, to be hashed while it is in the processor's cache.
inline constexpr std::int64_t kCacheBytes = std::int64_t{256} << 10;

// Of one 32-bit word, the i-th of a tensor: a product of two 32-bit numbers, which processors compute several
// at a time. For a given index no two words have the same hash (the product with an odd number, and the
// shift, can be undone), so a change of one word is always seen. An element of 64 bits is two words, the
// lower half first; narrower ones are a word each.
inline constexpr std::uint64_t kKeyStep = 0x9E3779B97F4A7C15u; // a Weyl sequence by the golden ratio
constexpr std::uint64_t keyed_hash(std::uint64_t key, std::uint32_t word) {
    const std::uint32_t mixed = word ^ static_cast<std::uint32_t>(key >> 32);
    const std::uint32_t odd = static_cast<std::uint32_t>(key) | 1u;
    const std::uint64_t product = static_cast<std::uint64_t>(mixed) * odd;
    return product ^ (product >> 29);
}
constexpr std::uint64_t word_hash(std::uint64_t index, std::uint32_t word) {
    return keyed_hash((index + 1) * kKeyStep, word);
}

// Sum over `count` neighbours from global index `first`; `elements` in row-major order.
std::uint64_t sum_of_run(std::int64_t first, std::span<const std::byte> elements, DType type);
// Of the elements of a box, row-major, of a tensor of `shape`.
std::uint64_t sum_of_box(std::span<const std::int64_t> shape, const topology::Box& box,
                         std::span<const std::byte> elements, DType type);

// Sums and numbers of elements of all ranges of several tensors ("slots").
class SumTable {
  public:
    explicit SumTable(std::vector<std::vector<std::int64_t>> shapes);

    // Adds the elements of a box of a slot; returns their sum.
    std::uint64_t add(std::size_t slot, const topology::Box& box, std::span<const std::byte> elements,
                      DType type);
    void add(const SumTable& other); // of the same slots
    // Adds up the tables of all ranks of a group, which have the same slots; every rank has the total.
    void all_reduce(comm::HostGroup& group);

    std::size_t slots() const { return shapes_.size(); }
    std::int64_t ranges(std::size_t slot) const;                           // of this slot
    topology::Interval range(std::size_t slot, std::int64_t number) const; // its elements
    std::uint64_t sum(std::size_t slot, std::int64_t number) const { return sums_[at(slot, number)]; }
    std::int64_t elements(std::size_t slot, std::int64_t number) const {
        return static_cast<std::int64_t>(counts_[at(slot, number)]);
    }
    std::uint64_t tensor_sum(std::size_t slot) const;
    const std::vector<std::int64_t>& shape(std::size_t slot) const { return shapes_[slot]; }

    // All range sums, slot by slot, as they are stored; the counterpart declares every element to be there
    // once.
    std::vector<std::int64_t> stored() const;
    void set_stored(std::span<const std::int64_t> sums);

  private:
    std::size_t at(std::size_t slot, std::int64_t number) const {
        return first_[slot] + static_cast<std::size_t>(number);
    }
    std::vector<std::vector<std::int64_t>> shapes_;
    std::vector<std::size_t> first_; // range of each slot; one more than slots
    std::vector<std::uint64_t> sums_, counts_;
};

// The first range in which `found` is not what `expected` says, taking into account that every element may
// have been read several times (by replicas): then found must be that multiple. Nothing if all agree. Slots
// of which nothing was read are passed over.
struct Difference {
    std::size_t slot = 0;
    topology::Interval range;
    std::string what; // "sum 00.. instead of 3f.." or "3 of 7 elements are there"
};
std::vector<Difference> differences(const SumTable& found, const SumTable& expected);

} // namespace trireme::checkpoint
