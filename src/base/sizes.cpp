// Sizes, counts and durations as people read them.
#include "trireme/base/sizes.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace trireme {
namespace {

std::string print(const char* format, double value, const char* unit) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), format, value, unit);
    return text.data();
}

} // namespace

std::string show_bytes(std::int64_t bytes) {
    if (bytes < 1024)
        return std::to_string(bytes) + " B";
    constexpr std::array<const char*, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit)
        value /= 1024;
    return print("%.1f %s", value, kUnits[unit]);
}

std::string show_count(double count) {
    if (std::fabs(count) < 1000)
        return print("%.0f%s", count, "");
    constexpr std::array<const char*, 4> kUnits{"K", "M", "B", "T"};
    double value = count / 1000;
    std::size_t unit = 0;
    for (; std::fabs(value) >= 1000 && unit + 1 < kUnits.size(); ++unit)
        value /= 1000;
    return print("%.1f %s", value, kUnits[unit]);
}

std::string show_duration(double seconds) {
    if (seconds < 60)
        return print("%.1f %s", seconds, "s");
    const auto minutes = static_cast<std::int64_t>(std::llround(seconds / 60));
    if (minutes < 60)
        return std::to_string(minutes) + " min";
    const std::int64_t hours = minutes / 60;
    if (hours < 48)
        return std::to_string(hours) + " h " + std::to_string(minutes % 60) + " min";
    return std::to_string(hours / 24) + " d " + std::to_string(hours % 24) + " h";
}

} // namespace trireme
