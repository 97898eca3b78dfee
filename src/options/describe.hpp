// Rows of the option table in words, for the pages that people read: --help, docs/options.md, the manual
// page.
#pragma once

#include <string>

#include "options/table.hpp"

namespace trireme::options {

// The last group of options that are Trireme's own; those after it are known from Megatron-LM and have no
// value.
inline constexpr Group kLastOwnGroup = Group::general;

// "--micro-batch-size N"
std::string with_placeholder(const Row& row);

enum class Detail { brief, full };

// "default 1; one of 1f1b, gpipe"; empty for flags and free text without a default. Brief: a mere lower
// bound, which nobody would guess wrong, is left out.
std::string limits_of(const Row& row, Detail detail);

} // namespace trireme::options
