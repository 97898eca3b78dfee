// The texts of JSONL: one object a line, of which some keys hold the text of a document.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// Reads line after line; one for each thread.
class JsonlReader {
  public:
    explicit JsonlReader(std::vector<std::string> keys);
    ~JsonlReader();

    // The values of the keys, in their order, valid until the next call; or, in `problem`, why the line is
    // bad: no JSON object, a key missing or its value no string, invalid UTF-8, an unpaired surrogate, or,
    // in a line of more than 1 MiB, a million values. Bytes after the line must be readable for kPadding
    // more.
    std::span<const std::string_view> read(std::string_view line, std::string& problem);
    static const std::size_t kPadding;
    // Gives back the memory that a long line has taken; values are no longer valid.
    void shrink();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Calls `use` for each line of `text` that is not blank, without its line end, with its number.
void for_each_line(std::string_view text, std::int64_t first_line,
                   const std::function<void(std::string_view line, std::int64_t number)>& use);

} // namespace trireme::data
