// Which options say what a tokenizer is made from.
#pragma once

#include <string_view>
#include <vector>

namespace trireme::options {

std::vector<std::string_view> files_of_tokenizer(std::string_view type);

} // namespace trireme::options
