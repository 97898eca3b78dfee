// ProgressLine writes to standard error, so that output that is piped on stays clean.
#include "trireme/base/progress_line.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace trireme {

static double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressLine::ProgressLine() : on_terminal_(::isatty(STDERR_FILENO) == 1), start_(now_seconds()) {}

ProgressLine::~ProgressLine() {
    if (width_ > 0)
        std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
}

double ProgressLine::seconds() const {
    return now_seconds() - start_;
}

bool ProgressLine::due() {
    if (!on_terminal_ || now_seconds() - shown_ < 0.5)
        return false;
    shown_ = now_seconds();
    return true;
}

void ProgressLine::show(const std::string& text) {
    std::fprintf(stderr, "\r%-*s", static_cast<int>(width_), text.c_str());
    std::fflush(stderr);
    width_ = std::max(width_, text.size());
}

} // namespace trireme
