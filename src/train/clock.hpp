// The clock by which a run measures itself.
#pragma once

#include <chrono>

namespace trireme::train {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace trireme::train
