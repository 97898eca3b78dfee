// Lines for people: printed once, whatever the number of ranks, or a warning where it arose.
#pragma once

#include <iostream>
#include <string>

#include "trireme/comm/runtime.hpp"

namespace trireme::train {

inline void say(const comm::Runtime& runtime, const std::string& text) {
    if (runtime.rank() == 0)
        std::cout << text << std::endl;
}

// Something that the user should look at and that does not end the run; where it was found, on one rank.
inline void warn(const std::string& text) {
    std::cerr << "trireme: warning: " << text << std::endl;
}

} // namespace trireme::train
