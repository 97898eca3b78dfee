// What a mistyped option probably meant.
#pragma once

#include <string>
#include <string_view>

#include "trireme/options/commands.hpp"

namespace trireme::options {

// "try: --num-layers", or what else can be said about an unknown name; "" if nothing is near.
std::string suggestion_for(std::string_view unknown, Command command);

} // namespace trireme::options
