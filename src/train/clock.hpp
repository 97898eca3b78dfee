// The clock by which a run measures itself.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace trireme::train {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// "2.5 s"
inline std::string show_seconds(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", seconds);
    return text;
}

} // namespace trireme::train
