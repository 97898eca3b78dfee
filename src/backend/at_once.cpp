// Time marks and halved copies of a backend whose work is done when a call returns.
#include <chrono>
#include <cstring>

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

HostCopy Backend::start_copy_to_host(const Tensor& from) {
    TRIREME_ASSERT(from.bytes() <= HostCopy::kMostBytes, "a host copy of ", from.bytes(), " bytes");
    HostCopy copy;
    copy_to_host(from, Tensor(copy.bytes.data(), from.shape(), from.type()));
    return copy;
}

void Backend::finish_copy_to_host(const HostCopy& copy, Tensor to) {
    std::memcpy(to.data(), copy.bytes.data(), static_cast<std::size_t>(to.bytes()));
}

} // namespace trireme::backend
