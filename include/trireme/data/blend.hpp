// Several data sets as one stream of samples. Weights are shares of the samples drawn, rounded to multiples
// of 2^-20, so that the order repeats after a period of at most 2^20 samples and one table of it answers for
// any sample number. After any N samples each member has been drawn within one sample of its share times N
// (Tijdeman's rule). A member's samples come in the member's own order; only whose turn it is stands here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::data {

struct BlendWord {
    std::string prefix;
    double weight = 0; // 0: none was given
};

// --data-path's words, by Megatron-LM's rule: an odd number are prefixes; of an even number every other one
// is a weight, or none is. `option` is for messages. Throws Error (usage).
std::vector<BlendWord> parse_blend(const std::vector<std::string>& words, const std::string& option);

class Blend {
  public:
    static constexpr std::int64_t kUnits = std::int64_t{1} << 20;

    // Positive weights of any sum. Shares too small for a unit get one.
    explicit Blend(const std::vector<double>& weights);

    // The shares in units of 2^-20; their sum is kUnits.
    const std::vector<std::int64_t>& units() const { return units_; }
    // After so many samples every member has been drawn exactly by its share.
    std::int64_t period() const { return static_cast<std::int64_t>(member_.size()); }

    struct Turn {
        std::size_t member;
        std::int64_t sample; // of the member
    };
    // Whose sample a sample of the blend is.
    Turn turn(std::int64_t sample) const;

  private:
    std::vector<std::int64_t> units_;
    std::vector<std::int64_t> in_period_; // samples of each member in a period
    std::vector<std::uint16_t> member_;   // [period]
    std::vector<std::uint32_t> so_far_;   // [period]: how often that member came before in the period
};

} // namespace trireme::data
