// Rotary frequencies against Hugging Face transformers 4.57.6 (ROPE_INIT_FUNCTIONS["llama3"], printed from
// its fp32), the table against std::cos and std::sin, and what is refused.
#include "trireme/catalogue/rotary.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using catalogue::RotaryConfig;
using catalogue::RotaryScaling;

struct Known {
    std::size_t index;
    double frequency;
};

// transformers computes in fp32: a power, a product and the line between the two ranges, which loses a digit
// where the kept share nears 0.
constexpr double kRelative = 16 * 0x1p-24;

void expect_known(const RotaryConfig& config, std::initializer_list<Known> known) {
    const auto frequencies = catalogue::rotary_frequencies(config);
    ASSERT_EQ(frequencies.size(), static_cast<std::size_t>(config.head_dim / 2));
    for (const auto& [index, frequency] : known)
        EXPECT_LE(std::abs(frequencies[index] - frequency), kRelative * frequency) << index;
}

TEST(RotaryTable, FrequenciesAreThoseOfLlama31) {
    // Llama 3.1 8B: 29 to 34 lie between the two ranges.
    expect_known({128, 1, 500000, RotaryScaling{8, 1, 4, 8192}}, {{0, 1.0},
                                                                  {1, 0.8146172165870667},
                                                                  {20, 0.016560440883040428},
                                                                  {28, 0.0032114461064338684},
                                                                  {29, 0.0021665706299245358},
                                                                  {30, 0.0013718936825171113},
                                                                  {31, 0.0008567514596506953},
                                                                  {32, 0.0005248460220173001},
                                                                  {33, 0.0003126936499029398},
                                                                  {34, 0.0001785077911335975},
                                                                  {35, 9.556212171446532e-05},
                                                                  {36, 7.784655463183299e-05},
                                                                  {63, 3.068925877869333e-07}});
    // Llama 3.2 1B: 15 to 17 lie between.
    expect_known({64, 1, 500000, RotaryScaling{32, 1, 4, 8192}}, {{5, 0.12868738174438477},
                                                                  {14, 0.0032114461064338684},
                                                                  {15, 0.0012905480107292533},
                                                                  {16, 0.000429556705057621},
                                                                  {17, 9.708286233944818e-05},
                                                                  {18, 1.9461638657958247e-05},
                                                                  {31, 9.418306490260875e-08}});
}

TEST(RotaryTable, UnscaledFrequenciesFallGeometrically) {
    const RotaryConfig config{64, 0.25, 10000, {}}; // 16 rotated dimensions: a factor of 10^(1/2) each
    ASSERT_EQ(catalogue::rotary_dimensions(config), 16);
    const auto frequencies = catalogue::rotary_frequencies(config);
    ASSERT_EQ(frequencies.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(frequencies[i] * std::pow(10.0, 0.5 * static_cast<double>(i)), 1, 1e-14) << i;
}

template <class T>
void expect_table() {
    const RotaryConfig config{8, 0.5, 100, {}}; // frequencies 1 and 0.1
    const std::size_t rows = 2000;
    std::vector<T> values(rows * 4, T{9});
    catalogue::fill_rotary_table(config,
                                 Tensor(std::span<T>(values), Shape{static_cast<std::int64_t>(rows), 4}));
    for (std::size_t p = 0; p < rows; ++p) {
        const auto angle = static_cast<long double>(p);
        const long double want[] = {std::cos(angle), std::cos(angle * 0.1L), std::sin(angle),
                                    std::sin(angle * 0.1L)};
        for (std::size_t i = 0; i < 4; ++i) // one rounding, and that of the angle (up to 200) in double
            EXPECT_LE(std::abs(static_cast<long double>(values[p * 4 + i]) - want[i]),
                      std::numeric_limits<T>::epsilon() / 2 + 200 * 0x1p-52L)
                << p << " " << i;
    }
}

TEST(RotaryTable, HoldsCosinesThenSines) {
    expect_table<float>();
    expect_table<double>();
}

TEST(RotaryTable, RefusesWhatCannotBeRotated) {
    EXPECT_THROW(catalogue::rotary_dimensions({6, 0.5, 10000, {}}), Error);  // 3, odd
    EXPECT_THROW(catalogue::rotary_dimensions({6, 0.1, 10000, {}}), Error);  // none
    EXPECT_THROW(catalogue::rotary_dimensions({64, 1.5, 10000, {}}), Error); // more than there are
    EXPECT_THROW(catalogue::rotary_frequencies({64, 1, 1, {}}), Error);
    EXPECT_THROW(catalogue::rotary_frequencies({64, 1, 10000, RotaryScaling{8, 4, 4, 8192}}), Error);
    std::vector<float> values(12);
    EXPECT_THROW(
        catalogue::fill_rotary_table({8, 1, 10000, {}}, Tensor(std::span<float>(values), Shape{2, 6})),
        Error);
}

} // namespace
} // namespace trireme::test
