// Integer helpers and the way sizes are shown to people.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

constexpr std::int64_t divide_round_up(std::int64_t value, std::int64_t by) {
    return (value + by - 1) / by;
}
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
    return divide_round_up(value, multiple) * multiple;
}

// "21.4 GiB", "512 B": binary units, one decimal.
std::string show_bytes(std::int64_t bytes);
// "3.1 B", "2.0 M", "384": decimal units, one decimal.
std::string show_count(double count);
// "12 h 31 min", "3.1 s".
std::string show_duration(double seconds);

} // namespace trireme
