// A terminal obeys control characters and a log is read by lines: neither may come from what others have
// written.
#include "trireme/base/printable.hpp"

namespace trireme {

std::string printable(std::string_view text, std::size_t most) {
    constexpr std::string_view kSpace = " \t\r\n\v\f", kMore = "...";
    std::string line;
    bool apart = false; // white space since the last character
    for (const char byte : text) {
        if (kSpace.find(byte) != std::string_view::npos) {
            apart = !line.empty();
            continue;
        }
        if (apart)
            line += ' ';
        apart = false;
        line += byte < ' ' || byte > '~' ? '?' : byte;
        if (line.size() > most)
            return line.substr(0, most - kMore.size()).append(kMore);
    }
    return line;
}

} // namespace trireme
