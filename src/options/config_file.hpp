// Reads `name = value` lines: --config FILE, and the options that a checkpoint keeps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options/table.hpp"
#include "trireme/options/parse.hpp"

namespace trireme::options {

struct ConfigLine {
    std::string name;
    std::vector<std::string> texts; // quotes removed; one for a single value, several for a list
    std::string where;              // "FILE:LINE"
};

// What cannot be understood goes to `problems`; the other lines come back in order, each name once.
//
//     # a comment; also after a value
//     num-layers = 4
//     recompute-activations = true
//     data-path = 0.7 wiki 0.3 books      a list on one line
//     prompt = "Once # upon"              quotes keep spaces and #; inside them \" \\ \n \t
std::vector<ConfigLine> read_config(std::string_view text, std::string_view file,
                                    std::vector<Problem>& problems);

// A value as read_config() reads it back.
std::string quoted_if_needed(const std::string& text, Arity arity);

} // namespace trireme::options
