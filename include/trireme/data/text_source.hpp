// Lines of text from a file or from standard input, plain or compressed. What it is shows in its first bytes
// (gzip or zstd), not in its name. Damaged or cut-off compressed data are an Error (data), never a silent
// end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme::data {

// A line is held in memory several times over; no document of text is longer.
inline constexpr std::size_t kLongestLine = std::size_t{1} << 26; // bytes, without its '\n'

// Whole lines, each with its '\n' but perhaps the last of the input; or, without a text, a line that is too
// long.
struct LineBlock {
    std::string text;
    std::int64_t first_line = 1; // its number in the input, counted from 1
    bool too_long = false;       // the line has more than kLongestLine bytes, which have been passed over
};
std::string describe_too_long(); // "a line of more than 64 MiB"

// One thread at a time.
class TextSource {
  public:
    // "-" is standard input. Throws Error (data) when it cannot be opened.
    explicit TextSource(const std::string& path);
    ~TextSource();
    TextSource(const TextSource&) = delete;
    TextSource& operator=(const TextSource&) = delete;

    // The path, or "standard input".
    const std::string& name() const;
    // Bytes read from the input itself, compressed as it is, and how many it has (-1: not known).
    std::int64_t bytes_read() const;
    std::int64_t bytes_in_all() const;

    // Some bytes of the decompressed text, without a byte-order mark at its start; false at its end.
    bool next_bytes(std::string& bytes);
    // About a quarter of a megabyte of whole lines; false at the end of the text.
    bool next_lines(LineBlock& block);

  private:
    // newline: where the first '\n' of the last bytes is, npos for none.
    void pass_over_line(std::size_t newline);

    struct State;
    std::unique_ptr<State> state_;
};

} // namespace trireme::data
