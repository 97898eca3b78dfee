// Initial values: each element is a function of (seed, parameter name, global element), so every layout
// starts from the same model and no rank draws what another holds.
#include <algorithm>
#include <cmath>
#include <numbers>
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

template <class T>
void initialise_as(const Parameter& parameter, const Shard& shard, std::uint64_t seed, std::span<T> local) {
    std::ranges::fill(local, T{0});
    if (parameter.initialisation == Initialisation::zeros)
        return;
    NormalStream normal(parameter.name, seed);
    const std::vector<topology::Interval>& axes = shard.box.axes;
    const int rank = static_cast<int>(axes.size());
    // Walk the box in row-major order; `at` is the position in it.
    std::vector<std::int64_t> at(axes.size(), 0);
    for (std::int64_t done = 0, count = shard.box.elements(); done < count; ++done) {
        std::int64_t global = 0, position = 0;
        for (int axis = 0; axis < rank; ++axis) {
            const auto i = static_cast<std::size_t>(axis);
            global = global * parameter.shape[i] + axes[i].begin + at[i];
            position = position * shard.local[axis] + at[i];
        }
        const double value = parameter.initialisation == Initialisation::ones
                                 ? 1.0
                                 : parameter.standard_deviation * normal(global);
        local[static_cast<std::size_t>(position)] = static_cast<T>(value);
        for (int axis = rank - 1; axis >= 0; --axis) {
            const auto i = static_cast<std::size_t>(axis);
            if (++at[i] < axes[i].size())
                break;
            at[i] = 0;
        }
    }
}

} // namespace

void initialise(const Parameter& parameter, const Shard& shard, std::uint64_t seed, Tensor local) {
    TRIREME_ASSERT(local.shape() == shard.local, parameter.name, ": a tensor of ", local.shape().text(),
                   " for a shard of ", shard.local.text());
    if (local.type() == DType::f64)
        initialise_as(parameter, shard, seed, local.values<double>());
    else
        initialise_as(parameter, shard, seed, local.values<float>());
}

} // namespace trireme::catalogue
