// Text to field and back. Numbers are read by std::from_chars: the locale does not matter, and the whole text
// counts.
#include "options/convert.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// Leaves room for what the rules multiply by small numbers (four times the hidden size).
constexpr std::int64_t kLargestInteger = std::int64_t{1} << 60;

template <class Number>
std::optional<Number> from_whole_text(std::string_view text) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, value);
    if (status != std::errc() || stop != end)
        return std::nullopt;
    return value;
}

template <class Parts>
std::string join_parts(const Parts& parts, std::string_view separator) {
    std::string text;
    for (const auto& part : parts) {
        if (&part != &parts.front())
            text += separator;
        text += part;
    }
    return text;
}

bool within(const Range& range, double value) {
    return (!range.at_least || value >= *range.at_least) && (!range.above || value > *range.above) &&
           (!range.at_most || value <= *range.at_most) && (!range.below || value < *range.below);
}

std::string describe_range(const Range& range) {
    std::string text;
    if (range.at_least)
        text += concat(" of at least ", show(*range.at_least));
    if (range.above)
        text += concat(" above ", show(*range.above));
    if (range.at_most)
        text += concat(text.empty() ? " of at most " : " and at most ", show(*range.at_most));
    if (range.below)
        text += concat(text.empty() ? " below " : " and below ", show(*range.below));
    return text;
}

// One value of a field's type, or nothing if the text is not one.
template <class T>
std::optional<T> read(const Row& row, std::string_view text) {
    if constexpr (std::is_same_v<T, std::string>) {
        const bool chosen = row.choices.empty() || std::ranges::find(row.choices, text) != row.choices.end();
        return chosen && !text.empty() ? std::optional(std::string(text)) : std::nullopt;
    } else {
        std::optional<T> value;
        if constexpr (std::is_same_v<T, double>)
            value = to_number(text);
        else
            value = to_integer(text);
        const bool fits = value && (!std::is_same_v<T, std::int64_t> || *value <= kLargestInteger);
        return fits && within(row.range, static_cast<double>(*value)) ? value : std::nullopt;
    }
}

template <class T>
struct ValueOf {
    using type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
    using type = T;
};

std::string refusal(const Row& row, std::string_view text) {
    if (to_integer(text).value_or(0) > kLargestInteger)
        return concat("--", row.name, " ", text, " is too large");
    return concat("--", row.name, " takes ", describe_values(row), ", not '", text, "'");
}

} // namespace

std::optional<std::int64_t> to_integer(std::string_view text) {
    return from_whole_text<std::int64_t>(text);
}

std::optional<double> to_number(std::string_view text) {
    const auto value = from_whole_text<double>(text);
    return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string show(double value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    return join_parts(parts, separator);
}
std::string join(const std::vector<std::string_view>& parts, std::string_view separator) {
    return join_parts(parts, separator);
}

std::string describe_values(const Row& row) {
    if (!row.choices.empty())
        return row.choices.size() == 1 ? std::string(row.choices.front())
                                       : concat("one of ", join(row.choices, ", "));
    if (std::holds_alternative<std::int64_t Values::*>(row.field) ||
        std::holds_alternative<std::optional<std::int64_t> Values::*>(row.field))
        return concat("a whole number", describe_range(row.range));
    if (std::holds_alternative<double Values::*>(row.field) ||
        std::holds_alternative<std::optional<double> Values::*>(row.field))
        return concat("a number", describe_range(row.range));
    return row.content == Content::path ? "a path" : "a text";
}

std::optional<std::string> assign(const Row& row, const std::vector<std::string>& texts, Values& values) {
    if (row.arity != Arity::flag && texts.empty())
        return concat("--", row.name, " takes ", describe_values(row), ", but no value follows it");
    if (row.arity == Arity::one && texts.size() > 1)
        return concat("--", row.name, " takes one value, not ", texts.size(), " (", join(texts, " "), ")");

    return std::visit(
        [&](auto field) -> std::optional<std::string> {
            using FieldPointer = decltype(field);
            if constexpr (std::is_same_v<FieldPointer, std::monostate>) {
                return std::nullopt;
            } else if constexpr (std::is_same_v<FieldPointer, bool Values::*>) {
                if (texts.size() > 1 || (texts.size() == 1 && texts[0] != "true" && texts[0] != "false"))
                    return concat("--", row.name, " is a flag: nothing follows it (", join(texts, " "), ")");
                values.*field = texts.empty() || texts[0] == "true";
                return std::nullopt;
            } else if constexpr (std::is_same_v<FieldPointer, std::vector<std::string> Values::*>) {
                for (const std::string& text : texts)
                    if (!row.choices.empty() && !read<std::string>(row, text))
                        return refusal(row, text);
                values.*field = texts;
                return std::nullopt;
            } else {
                using T = typename ValueOf<std::remove_reference_t<decltype(values.*field)>>::type;
                const std::optional<T> value = read<T>(row, texts[0]);
                if (!value)
                    return refusal(row, texts[0]);
                values.*field = *value;
                return std::nullopt;
            }
        },
        row.field);
}

std::vector<std::string> texts_of(const Row& row, const Values& values) {
    struct Printer {
        std::vector<std::string> operator()(bool on) const {
            return on ? std::vector<std::string>{"true"} : std::vector<std::string>{};
        }
        std::vector<std::string> operator()(std::int64_t value) const { return {std::to_string(value)}; }
        std::vector<std::string> operator()(double value) const { return {show(value)}; }
        std::vector<std::string> operator()(const std::string& value) const { return {value}; }
        std::vector<std::string> operator()(const std::vector<std::string>& value) const { return value; }
        std::vector<std::string> operator()(const std::optional<std::int64_t>& value) const {
            return value ? (*this)(*value) : std::vector<std::string>{};
        }
        std::vector<std::string> operator()(const std::optional<double>& value) const {
            return value ? (*this)(*value) : std::vector<std::string>{};
        }
        std::vector<std::string> operator()(const std::optional<std::string>& value) const {
            return value ? (*this)(*value) : std::vector<std::string>{};
        }
    };
    return std::visit(
        [&](auto field) -> std::vector<std::string> {
            if constexpr (std::is_same_v<decltype(field), std::monostate>)
                return {};
            else
                return Printer{}(values.*field);
        },
        row.field);
}

} // namespace trireme::options
