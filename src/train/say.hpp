// A line for people: printed once, whatever the number of ranks.
#pragma once

#include <iostream>
#include <string>

#include "trireme/comm/runtime.hpp"

namespace trireme::train {

inline void say(const comm::Runtime& runtime, const std::string& text) {
    if (runtime.rank() == 0)
        std::cout << text << std::endl;
}

} // namespace trireme::train
