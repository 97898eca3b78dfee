// Initial values: each element against the formula of catalogue.hpp, written out again, on every shard of a
// cut; and the same bits whatever the number of threads.
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include <gtest/gtest.h>

#include "support/tiny_model.hpp"
#include "trireme/base/philox.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/model/parameters.hpp"

namespace trireme::test {
namespace {

constexpr std::uint64_t kSeed = 77;

double expected(const catalogue::Parameter& parameter, std::int64_t element) {
    std::uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const char c : parameter.name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    const auto pair = static_cast<std::uint64_t>(element) / 2;
    const PhiloxCounter words =
        philox4x32({static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32),
                    static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)},
                   philox_key(kSeed, RandomDomain::initial_weights));
    const double radius = std::sqrt(-2 * std::log1p(-uniform_double(words[0], words[1])));
    const double angle = 2 * std::numbers::pi * uniform_double(words[2], words[3]);
    return parameter.standard_deviation * radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

std::vector<double> all_values(const catalogue::Parameter& parameter, const catalogue::Shard& shard) {
    std::vector<double> values(static_cast<std::size_t>(shard.local.elements()), NAN);
    catalogue::initialise(parameter, shard, kSeed, {0, shard.local.elements()},
                          Tensor(std::span(values), Shape{shard.local.elements()}));
    return values;
}

TEST(Initialise, EveryElementOfEveryShardFollowsTheFormula) {
    const train::EngineSetup setup = tiny_setup();
    for (const int ranks : {1, 2, 4})
        for (const catalogue::Parameter& parameter : catalogue::make_catalogue(setup.model, ranks))
            for (int rank = 0; rank < ranks; ++rank) {
                const catalogue::Shard shard = catalogue::shard(parameter, ranks, rank);
                const std::vector<double> values = all_values(parameter, shard);
                std::size_t at = 0;
                // Up to three axes, outermost first; missing ones have one element.
                const auto axis = [&](std::size_t number) -> std::array<std::int64_t, 4> {
                    const std::size_t missing = 3 - parameter.shape.size();
                    if (number < missing)
                        return {1, 1, 0, 1}; // local, filled, begin, of the whole
                    const std::size_t i = number - missing;
                    return {shard.local[static_cast<int>(i)], shard.box.axes[i].size(),
                            shard.box.axes[i].begin, parameter.shape[i]};
                };
                const auto a = axis(0), b = axis(1), c = axis(2);
                for (std::int64_t i = 0; i < a[0]; ++i)
                    for (std::int64_t j = 0; j < b[0]; ++j)
                        for (std::int64_t k = 0; k < c[0]; ++k, ++at) {
                            const bool padding = i >= a[1] || j >= b[1] || k >= c[1];
                            const std::int64_t element = ((a[2] + i) * b[3] + b[2] + j) * c[3] + c[2] + k;
                            double wanted = 0;
                            if (!padding && parameter.initialisation == catalogue::Initialisation::ones)
                                wanted = 1;
                            if (!padding && parameter.initialisation == catalogue::Initialisation::normal)
                                wanted = expected(parameter, element);
                            // The formula's product may be rounded in another order: two roundings.
                            ASSERT_LE(std::abs(values[at] - wanted), 4 * 0x1p-53 * std::abs(wanted))
                                << parameter.name << " element " << element << " rank " << rank;
                        }
                ASSERT_EQ(at, values.size());
            }
}

TEST(Initialise, PiecesOfAShardAreThatShard) {
    const train::EngineSetup setup = tiny_setup();
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(setup.model, 4)) {
        const catalogue::Shard shard = catalogue::shard(parameter, 4, 3);
        const std::vector<double> whole = all_values(parameter, shard);
        for (const std::int64_t length : {1, 5, 17}) {
            std::vector<double> pieces(whole.size(), NAN);
            for (std::int64_t begin = 0; begin < shard.local.elements(); begin += length) {
                const std::int64_t end = std::min(shard.local.elements(), begin + length);
                catalogue::initialise(parameter, shard, kSeed, {begin, end},
                                      Tensor(std::span(pieces).subspan(static_cast<std::size_t>(begin),
                                                                       static_cast<std::size_t>(end - begin)),
                                             Shape{end - begin}));
            }
            EXPECT_EQ(std::memcmp(pieces.data(), whole.data(), whole.size() * sizeof(double)), 0)
                << parameter.name << " in pieces of " << length;
        }
    }
}

// All weights of a model whose word embedding is longer than a piece and worth several threads.
std::vector<std::byte> weights_drawn_by(int threads, DType type) {
    train::EngineSetup setup = tiny_setup();
    setup.model.layers = 1;
    setup.model.hidden = 64;
    setup.model.head_dim = 16;
    setup.model.vocabulary = 70'001;
    model::ParameterSetup parameters;
    parameters.config = setup.model;
    parameters.placement = topology::place_layers(1, 1, 1);
    parameters.weight_type = type;
    parameters.gradient_type = statistics_type(type);
    memory::Plan plan;
    model::Parameters held(parameters, plan);
    const auto backend = backend::make_cpu_backend(1);
    const memory::Arena arena(plan, *backend);
    held.bind(arena);
    held.initialise(kSeed, *backend, threads);
    std::vector<std::byte> bytes;
    for (std::size_t bucket = 0; bucket < held.buckets().size(); ++bucket) {
        const Tensor weights = held.bucket_weights(bucket);
        const auto* const first = static_cast<const std::byte*>(weights.data());
        bytes.insert(bytes.end(), first, first + weights.bytes());
    }
    return bytes;
}

TEST(Initialise, TheNumberOfThreadsChangesNoBit) {
    for (const DType type : {DType::f32, DType::bf16}) {
        const std::vector<std::byte> one = weights_drawn_by(1, type);
        EXPECT_EQ(weights_drawn_by(3, type), one) << name(type);
        EXPECT_EQ(weights_drawn_by(16, type), one) << name(type);
    }
}

} // namespace
} // namespace trireme::test
