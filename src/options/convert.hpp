// Between the text of an option and its typed field, with the checks that concern one value alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "options/table.hpp"

namespace trireme::options {

// Sets the row's field from its texts. Returns what is wrong with them ("--lr takes a number of at least 0,
// not 'fast'"), and then leaves the field alone.
std::optional<std::string> assign(const Row& row, const std::vector<std::string>& texts, Values& values);

// The row's field as text, one element for each value; empty when absent (or a flag that is off).
std::vector<std::string> texts_of(const Row& row, const Values& values);

// "a whole number of at least 1", "one of 1f1b, gpipe".
std::string describe_values(const Row& row);

// Whole text to number; nothing else before or after, and finite.
std::optional<std::int64_t> to_integer(std::string_view text);
std::optional<double> to_number(std::string_view text);

// Shortest text that reads back to the same number: 0.00015, 1e-08.
std::string show(double value);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string join(const std::vector<std::string_view>& parts, std::string_view separator);

} // namespace trireme::options
