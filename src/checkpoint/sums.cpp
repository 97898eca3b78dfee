// Hashing runs of elements, and the table of ranges.
#include "sums.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::checkpoint {
namespace {

// The type is a constant and the key grows by a step, so that the compiler hashes several words at a time.
template <class Word>
std::uint64_t sum_words(std::uint64_t first, const std::byte* from, std::size_t count) {
    std::uint64_t sum = 0, key = (first + 1) * kKeyStep;
    for (std::size_t i = 0; i < count; ++i) {
        Word word;
        std::memcpy(&word, from + i * sizeof word, sizeof word);
        sum += keyed_hash(key, word);
        key += kKeyStep;
    }
    return sum;
}

std::string hexadecimal(std::uint64_t value) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

} // namespace

std::uint64_t sum_of_run(std::int64_t first, std::span<const std::byte> elements, DType type) {
    const auto index = static_cast<std::uint64_t>(first);
    const auto size = static_cast<std::size_t>(size_bytes(type));
    const std::size_t count = elements.size() / size;
    switch (size) {
    case 8:
        return sum_words<std::uint32_t>(2 * index, elements.data(),
                                        2 * count); // little-endian, as in the file
    case 4:
        return sum_words<std::uint32_t>(index, elements.data(), count);
    case 2:
        return sum_words<std::uint16_t>(index, elements.data(), count);
    default:
        return sum_words<std::uint8_t>(index, elements.data(), count);
    }
}

std::uint64_t sum_of_box(std::span<const std::int64_t> shape, const topology::Box& box,
                         std::span<const std::byte> elements, DType type) {
    std::uint64_t sum = 0;
    topology::for_each_run(shape, box, [&](std::int64_t first, std::int64_t count) {
        const auto bytes = static_cast<std::size_t>(count * size_bytes(type));
        sum += sum_of_run(first, elements.first(bytes), type);
        elements = elements.subspan(bytes);
    });
    return sum;
}

SumTable::SumTable(std::vector<std::vector<std::int64_t>> shapes) : shapes_(std::move(shapes)) {
    std::size_t ranges = 0;
    first_.push_back(0);
    for (const std::vector<std::int64_t>& shape : shapes_) {
        const std::int64_t elements = topology::Box::whole(shape).elements();
        ranges += static_cast<std::size_t>(divide_round_up(elements, kRangeElements));
        first_.push_back(ranges);
    }
    sums_.resize(ranges);
    counts_.resize(ranges);
}

std::int64_t SumTable::ranges(std::size_t slot) const {
    return static_cast<std::int64_t>(first_[slot + 1] - first_[slot]);
}

topology::Interval SumTable::range(std::size_t slot, std::int64_t number) const {
    const std::int64_t elements = topology::Box::whole(shapes_[slot]).elements();
    return {number * kRangeElements, std::min(elements, (number + 1) * kRangeElements)};
}

std::uint64_t SumTable::add(std::size_t slot, const topology::Box& box, std::span<const std::byte> elements,
                            DType type) {
    std::uint64_t added = 0;
    const std::int64_t size = size_bytes(type);
    TRIREME_ASSERT(box.elements() * size == static_cast<std::int64_t>(elements.size()), elements.size(),
                   " bytes for the box ", box.text());
    topology::for_each_run(shapes_[slot], box, [&](std::int64_t first, std::int64_t count) {
        while (count > 0) {
            const std::int64_t number = first / kRangeElements;
            const std::int64_t here = std::min(count, (number + 1) * kRangeElements - first);
            const auto bytes = static_cast<std::size_t>(here * size);
            const std::uint64_t sum = sum_of_run(first, elements.first(bytes), type);
            sums_[at(slot, number)] += sum;
            added += sum;
            counts_[at(slot, number)] += static_cast<std::uint64_t>(here);
            elements = elements.subspan(bytes);
            first += here;
            count -= here;
        }
    });
    return added;
}

// Sums of halves are exact in doubles for up to 2^21 ranks.
void SumTable::add(const SumTable& other) {
    TRIREME_ASSERT(sums_.size() == other.sums_.size(), "tables of other slots are added");
    for (std::size_t i = 0; i < sums_.size(); ++i) {
        sums_[i] += other.sums_[i];
        counts_[i] += other.counts_[i];
    }
}

void SumTable::all_reduce(comm::HostGroup& group) {
    constexpr std::size_t kValues = 8192; // of one call, on each rank
    constexpr std::uint64_t kLowHalf = 0xFFFFFFFFu;
    std::vector<double> halves;
    for (std::vector<std::uint64_t>* table : {&sums_, &counts_})
        for (std::size_t begin = 0; begin < table->size(); begin += kValues / 2) {
            const std::span<std::uint64_t> part =
                std::span(*table).subspan(begin, std::min(kValues / 2, table->size() - begin));
            halves.clear();
            for (const std::uint64_t value : part) {
                halves.push_back(static_cast<double>(value & kLowHalf));
                halves.push_back(static_cast<double>(value >> 32));
            }
            group.all_reduce(halves, comm::ReduceOp::sum);
            for (std::size_t i = 0; i < part.size(); ++i)
                part[i] = static_cast<std::uint64_t>(halves[2 * i]) +
                          (static_cast<std::uint64_t>(halves[2 * i + 1]) << 32);
        }
}

std::uint64_t SumTable::tensor_sum(std::size_t slot) const {
    std::uint64_t total = 0;
    for (std::int64_t number = 0; number < ranges(slot); ++number)
        total += sum(slot, number);
    return total;
}

std::vector<std::int64_t> SumTable::stored() const {
    return {sums_.begin(), sums_.end()};
}

void SumTable::set_stored(std::span<const std::int64_t> sums) {
    TRIREME_ASSERT(sums.size() == sums_.size(), sums.size(), " sums for ", sums_.size(), " ranges");
    std::ranges::transform(sums, sums_.begin(),
                           [](std::int64_t sum) { return static_cast<std::uint64_t>(sum); });
    for (std::size_t slot = 0; slot < slots(); ++slot)
        for (std::int64_t number = 0; number < ranges(slot); ++number)
            counts_[at(slot, number)] = static_cast<std::uint64_t>(range(slot, number).size());
}

std::vector<Difference> differences(const SumTable& found, const SumTable& expected) {
    TRIREME_ASSERT(found.slots() == expected.slots(), "tables of different tensors");
    std::vector<Difference> result;
    for (std::size_t slot = 0; slot < found.slots(); ++slot) {
        std::int64_t read = 0;
        for (std::int64_t number = 0; number < found.ranges(slot); ++number)
            read += found.elements(slot, number);
        for (std::int64_t number = 0; read > 0 && number < found.ranges(slot); ++number) {
            const topology::Interval range = found.range(slot, number);
            const std::int64_t times = found.elements(slot, number) / range.size();
            if (times < 1 || found.elements(slot, number) != times * range.size())
                result.push_back(
                    {slot, range,
                     concat(found.elements(slot, number), " of its ", range.size(), " elements are there")});
            else if (found.sum(slot, number) !=
                     expected.sum(slot, number) * static_cast<std::uint64_t>(times))
                result.push_back(
                    {slot, range,
                     times == 1
                         ? concat("sum ", hexadecimal(found.sum(slot, number)), " instead of ",
                                  hexadecimal(expected.sum(slot, number)))
                         : concat("sum over ", times, " readers ", hexadecimal(found.sum(slot, number)),
                                  " instead of ", times, " x ", hexadecimal(expected.sum(slot, number)))});
        }
    }
    return result;
}

} // namespace trireme::checkpoint
