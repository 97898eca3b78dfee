// The few rules of the file format. Boost.Program_options has a reader of its own, which knows no line
// numbers.
#include "options/config_file.hpp"

#include <map>
#include <optional>

#include "options/convert.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Ends the line at a # that opens it or follows a blank, outside quotes.
std::string_view without_comment(std::string_view line) {
    bool in_quotes = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (in_quotes && line[i] == '\\')
            ++i;
        else if (line[i] == '"')
            in_quotes = !in_quotes;
        else if (line[i] == '#' && !in_quotes &&
                 (i == 0 || kBlank.find(line[i - 1]) != std::string_view::npos))
            return line.substr(0, i);
    }
    return line;
}

// `text` starts with a quote. Takes the quoted part off its front; nothing if it is not closed.
std::optional<std::string> take_quoted(std::string_view& text) {
    std::string value;
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '"') {
            text.remove_prefix(i + 1);
            return value;
        }
        if (text[i] == '\\' && i + 1 < text.size()) {
            ++i;
            value += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
        } else {
            value += text[i];
        }
    }
    return std::nullopt;
}

std::optional<std::vector<std::string>> split_list(std::string_view text) {
    std::vector<std::string> items;
    for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
        if (text.front() == '"') {
            const auto item = take_quoted(text);
            if (!item)
                return std::nullopt;
            items.push_back(*item);
        } else {
            const auto end = std::min(text.find_first_of(kBlank), text.size());
            items.emplace_back(text.substr(0, end));
            text.remove_prefix(end);
        }
    }
    return items;
}

// One value is the rest of the line, blanks inside included, or one quoted text and nothing after it.
std::optional<std::vector<std::string>> single_value(std::string_view text) {
    if (text.empty())
        return std::vector<std::string>{};
    if (text.front() != '"')
        return std::vector<std::string>{std::string(text)};
    const auto value = take_quoted(text);
    if (!value || !trimmed(text).empty())
        return std::nullopt;
    return std::vector<std::string>{*value};
}

} // namespace

std::vector<ConfigLine> read_config(std::string_view text, std::string_view file,
                                    std::vector<Problem>& problems) {
    std::vector<ConfigLine> lines;
    std::map<std::string, std::string, std::less<>> seen; // canonical name -> where
    for (int number = 1; !text.empty(); ++number) {
        const auto end = std::min(text.find('\n'), text.size());
        const std::string_view line = trimmed(without_comment(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty())
            continue;

        const std::string where = concat(file, ":", number);
        const auto equals = line.find('=');
        const std::string name(trimmed(line.substr(0, equals)));
        if (equals == std::string_view::npos || name.empty() || name.starts_with("-")) {
            problems.push_back(
                {concat("'", line, "' is not `name = value`"),
                 {where, "try: num-layers = 12, flags as `finetune = true`, without dashes before"}});
            continue;
        }
        const Row* row = find_row(name);
        const std::string_view value = trimmed(line.substr(equals + 1));
        const auto texts =
            row != nullptr && row->arity == Arity::list ? split_list(value) : single_value(value);
        if (!texts) {
            problems.push_back({concat("the quotes of ", name, " do not enclose its value"), {where}});
            continue;
        }
        const auto [first, fresh] = seen.emplace(row != nullptr ? row->name : std::string_view(name), where);
        if (!fresh) {
            problems.push_back({concat(name, " stands twice in one file"), {first->second, where}});
            continue;
        }
        lines.push_back({name, *texts, where});
    }
    return lines;
}

std::string quoted_if_needed(const std::string& text, Arity arity) {
    const std::string_view special = arity == Arity::list ? "\"#\\\n\t\r " : "\"#\\\n\t\r";
    if (!text.empty() && text.find_first_of(special) == std::string::npos && trimmed(text) == text)
        return text;
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '\n')
            quoted += "\\n";
        else if (c == '\t')
            quoted += "\\t";
        else if (c == '"' || c == '\\')
            quoted += concat('\\', c);
        else
            quoted += c;
    }
    return quoted + '"';
}

} // namespace trireme::options
