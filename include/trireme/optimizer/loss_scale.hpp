// The factor by which fp16 gradients are kept above what fp16 can hold (Micikevicius et al. 2018). Dynamic:
// halved when gradients overflow, doubled after `window` steps without; the rules are Megatron-LM's. Of a
// step whose gradients overflow nothing is used.
#pragma once

#include <cstdint>

namespace trireme::optimizer {

struct LossScaleSetup {
    enum class Kind : std::uint8_t { none, fixed, dynamic };
    Kind kind = Kind::none;
    double initial = 1; // fixed: always
    double minimum = 1;
    std::int64_t window = 1000;
    std::int64_t hysteresis = 2;
};

class LossScale {
  public:
    // What a checkpoint keeps.
    struct State {
        double scale = 1;
        std::int64_t good_steps = 0;     // since the scale changed or gradients overflowed
        std::int64_t overflows_left = 1; // that change nothing but this count, with the one that halves
        bool operator==(const State&) const = default;
    };

    explicit LossScale(const LossScaleSetup& setup)
        : setup_(setup), state_{setup.initial, 0, setup.hysteresis} {}

    double value() const { return state_.scale; }
    bool dynamic() const { return setup_.kind == LossScaleSetup::Kind::dynamic; }
    // Whether a step that overflows now is a matter of the scale: a smaller one is left to try.
    bool can_shrink() const { return dynamic() && state_.scale > setup_.minimum; }
    // After each step. The first hysteresis - 1 overflows since the scale last grew leave it alone.
    void update(bool overflow);

    const State& state() const { return state_; }
    // Of a checkpoint. A scale that is not dynamic stays as it was set up.
    void restore(const State& state);

  private:
    LossScaleSetup setup_;
    State state_;
};

} // namespace trireme::optimizer
