// Time marks of a backend whose work is done when a call returns.
#include <chrono>

#include "trireme/backend/backend.hpp"

namespace trireme::backend {

TimeMark Backend::mark() {
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(
                std::chrono::steady_clock::now().time_since_epoch())
                .count()};
}

double Backend::seconds_between(TimeMark from, TimeMark to) {
    return 1e-9 * static_cast<double>(to.value - from.value);
}

} // namespace trireme::backend
