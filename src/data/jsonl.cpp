// JSONL by simdjson's DOM parser, which checks the whole line.
#include "trireme/data/jsonl.hpp"

#include <simdjson.h>
#include <utility>

#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

constexpr const char* kUnpairedSurrogate = "an unpaired surrogate escape";

// simdjson notices some of the surrogates that form no pair and takes others; so escapes \ud800 to \udfff are
// checked here.
bool has_unpaired_surrogate(std::string_view line) {
    const auto unit_at = [&](std::size_t at) -> std::uint32_t { // of "\uXXXX", 0 where there is none
        if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u')
            return 0;
        std::uint32_t value = 0;
        for (std::size_t digit = at + 2; digit < at + 6; ++digit) {
            const char c = line[digit];
            const int nibble = c >= '0' && c <= '9'   ? c - '0'
                               : c >= 'a' && c <= 'f' ? c - 'a' + 10
                               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                      : -1;
            if (nibble < 0)
                return 0;
            value = value * 16 + static_cast<std::uint32_t>(nibble);
        }
        return value;
    };
    for (std::size_t at = line.find('\\'); at != std::string_view::npos; at = line.find('\\', at)) {
        const std::uint32_t unit = unit_at(at);
        if (unit >= 0xDC00 && unit <= 0xDFFF)
            return true;
        if (unit >= 0xD800 && unit <= 0xDBFF) {
            const std::uint32_t second = unit_at(at + 6);
            if (second < 0xDC00 || second > 0xDFFF)
                return true;
            at += 12;
        } else {
            at += 2; // whatever is escaped, a backslash too
        }
    }
    return false;
}

// The parser takes 20 bytes or so for each value, many times what a line of numbers takes itself.
constexpr std::size_t kLongLine = std::size_t{1} << 20;
constexpr std::size_t kMostValuesOfLongLine = 1'000'000;

bool has_too_many_values(std::string_view line) {
    std::size_t marks = 0;
    for (std::size_t at = 0; at < line.size(); ++at) {
        const char c = line[at];
        if (c == '"') { // to the end of the string
            for (at = line.find_first_of("\"\\", at + 1); at < line.size() && line[at] == '\\';)
                at = line.find_first_of("\"\\", at + 2);
            if (at == std::string_view::npos)
                return false;
        } else if (c == ',' || c == '[' || c == '{' || c == ':') {
            ++marks;
        }
    }
    return marks > kMostValuesOfLongLine;
}

} // namespace

const std::size_t JsonlReader::kPadding = simdjson::SIMDJSON_PADDING;

struct JsonlReader::State {
    std::vector<std::string> keys;
    std::vector<std::string_view> values;
    simdjson::dom::parser parser;
};

JsonlReader::JsonlReader(std::vector<std::string> keys) : state_(std::make_unique<State>()) {
    state_->keys = std::move(keys);
    state_->values.resize(state_->keys.size());
}
JsonlReader::~JsonlReader() = default;

void JsonlReader::shrink() {
    state_->parser = simdjson::dom::parser();
}

std::span<const std::string_view> JsonlReader::read(std::string_view line, std::string& problem) {
    problem.clear();
    if (line.size() > kLongLine && has_too_many_values(line)) {
        problem = concat("a line of ", line.size() >> 20, " MiB with more than ", kMostValuesOfLongLine,
                         " JSON values");
        return {};
    }
    simdjson::dom::element root;
    if (const auto error = state_->parser.parse(line.data(), line.size(), false).get(root)) {
        problem = error == simdjson::UTF8_ERROR  ? "invalid UTF-8"
                  : has_unpaired_surrogate(line) ? kUnpairedSurrogate
                                                 : concat("not JSON: ", simdjson::error_message(error));
        return {};
    }
    simdjson::dom::object object;
    if (root.get(object)) {
        problem = "not a JSON object";
        return {};
    }
    if (has_unpaired_surrogate(line)) {
        problem = kUnpairedSurrogate;
        return {};
    }
    for (std::size_t index = 0; index < state_->keys.size(); ++index) {
        const auto value = object.at_key(state_->keys[index]);
        if (value.error()) {
            problem = concat("no key \"", state_->keys[index], "\"");
            return {};
        }
        if (value.get(state_->values[index])) {
            problem = concat("the value of \"", state_->keys[index], "\" is not a string");
            return {};
        }
    }
    return state_->values;
}

void for_each_line(std::string_view text, std::int64_t first_line,
                   const std::function<void(std::string_view line, std::int64_t number)>& use) {
    for (std::int64_t number = first_line; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        if (line.find_first_not_of(" \t\r") != std::string_view::npos)
            use(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line, number);
    }
}

} // namespace trireme::data
