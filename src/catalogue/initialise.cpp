// Initial values: each element is a function of (seed, parameter name, global element), so every layout
// starts from the same model and no rank draws what another holds.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "trireme/base/philox.hpp"
#include "trireme/catalogue/catalogue.hpp"

namespace trireme::catalogue {
namespace {

// FNV-1a (Fowler, Noll, Vo): fixed for ever, since it is part of the meaning of a seed.
std::uint64_t name_hash(std::string_view name) {
    std::uint64_t hash = 0xCBF29CE484222325u;
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    return hash;
}

// Standard normal values of one parameter by global element number.
class NormalStream {
  public:
    NormalStream(std::string_view name, std::uint64_t seed)
        : key_(philox_key(seed, RandomDomain::initial_weights)), hash_(name_hash(name)) {}

    double operator()(std::int64_t element) {
        if (element / 2 != pair_)
            draw(element / 2);
        return element % 2 == 0 ? even_ : odd_;
    }

  private:
    void draw(std::int64_t pair) {
        const auto number = static_cast<std::uint64_t>(pair);
        const PhiloxCounter words =
            philox4x32({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                        static_cast<std::uint32_t>(hash_), static_cast<std::uint32_t>(hash_ >> 32)},
                       key_);
        const double radius =
            std::sqrt(-2 * std::log1p(-uniform_double(words[0], words[1]))); // log(1 - u): u < 1
        const double angle = 2 * std::numbers::pi * uniform_double(words[2], words[3]);
        pair_ = pair;
        even_ = radius * std::cos(angle);
        odd_ = radius * std::sin(angle);
    }

    PhiloxKey key_;
    std::uint64_t hash_;
    std::int64_t pair_ = -1;
    double even_ = 0, odd_ = 0;
};

// Where a row of the last axis stands: the number of its first element in the whole parameter, or nothing if
// it is padding. Worked example: rows 2 and 3 of a [4, 10] parameter held as local [2, 10]: row 1 starts at
// element 30.
std::optional<std::int64_t> row_begin(const Parameter& parameter, const Shard& shard, std::int64_t row) {
    const std::vector<topology::Interval>& axes = shard.box.axes;
    const std::size_t last = axes.size() - 1;
    std::int64_t begin = axes[last].begin, stride = parameter.shape[last];
    for (std::size_t axis = last; axis-- > 0;) {
        const std::int64_t extent = shard.local[static_cast<int>(axis)], at = row % extent;
        row /= extent;
        if (at >= axes[axis].size())
            return std::nullopt;
        begin += (axes[axis].begin + at) * stride;
        stride *= parameter.shape[axis];
    }
    return begin;
}

template <class T>
void initialise_as(const Parameter& parameter, const Shard& shard, std::uint64_t seed,
                   topology::Interval elements, std::span<T> to) {
    std::ranges::fill(to, T{0});
    if (parameter.initialisation == Initialisation::zeros)
        return;
    NormalStream normal(parameter.name, seed);
    const std::int64_t width = shard.local[shard.local.rank() - 1], filled = shard.box.axes.back().size();
    for (std::int64_t row = elements.begin / width; row * width < elements.end; ++row) {
        const std::optional<std::int64_t> begin = row_begin(parameter, shard, row);
        if (!begin)
            continue;
        const std::int64_t first = std::max<std::int64_t>(0, elements.begin - row * width),
                           end = std::min(filled, elements.end - row * width);
        T* const at = to.data() + (row * width - elements.begin);
        for (std::int64_t i = first; i < end; ++i)
            at[i] = static_cast<T>(parameter.initialisation == Initialisation::ones
                                       ? 1.0
                                       : parameter.standard_deviation * normal(*begin + i));
    }
}

} // namespace

void initialise(const Parameter& parameter, const Shard& shard, std::uint64_t seed,
                topology::Interval elements, Tensor to) {
    TRIREME_ASSERT(to.elements() == elements.size(), parameter.name, ": a tensor of ", to.shape().text(),
                   " for ", elements.size(), " elements of a shard of ", shard.local.text());
    if (to.type() == DType::f64)
        initialise_as(parameter, shard, seed, elements, to.values<double>());
    else
        initialise_as(parameter, shard, seed, elements, to.values<float>());
}

} // namespace trireme::catalogue
