// trireme-data tokenize and detokenize: standard input to standard output, a document a line.
#include <charconv>
#include <iostream>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/data/text_source.hpp"

namespace trireme::data_tools {

namespace po = boost::program_options;

// Every line of the input, blank ones too, without its line end.
template <class Use>
static void for_each_input_line(Use use) {
    data::TextSource source("-");
    data::LineBlock block;
    while (source.next_lines(block)) {
        std::int64_t number = block.first_line;
        if (block.too_long)
            throw Error(ErrorCategory::data,
                        concat("standard input:", number, ": ", data::describe_too_long()));
        for (std::string_view rest = block.text; !rest.empty(); ++number) {
            const std::size_t end = rest.find('\n');
            std::string_view line = rest.substr(0, end);
            rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
            use(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line, number);
        }
    }
}

int tokenize(const Arguments& arguments) {
    po::options_description options("Options");
    add_tokenizer_options(options);
    const auto given =
        parse_arguments(arguments, "tokenize --vocab-file FILE --merge-file FILE < TEXT", options);
    if (!given)
        return 0;
    const auto tokenizer = make_tokenizer(*given);
    const auto scratch = tokenizer->make_scratch();
    std::vector<std::int32_t> ids;
    for_each_input_line([&](std::string_view line, std::int64_t) {
        ids.clear();
        tokenizer->encode(line, *scratch, ids);
        for (std::size_t index = 0; index < ids.size(); ++index)
            std::cout << (index == 0 ? "" : " ") << ids[index];
        std::cout << '\n';
    });
    return 0;
}

int detokenize(const Arguments& arguments) {
    po::options_description options("Options");
    add_tokenizer_options(options);
    const auto given =
        parse_arguments(arguments, "detokenize --vocab-file FILE --merge-file FILE < IDS", options);
    if (!given)
        return 0;
    const auto tokenizer = make_tokenizer(*given);
    std::vector<std::int32_t> ids;
    for_each_input_line([&](std::string_view line, std::int64_t number) {
        ids.clear();
        for (const char *at = line.data(), *end = line.data() + line.size(); at != end;) {
            if (*at == ' ') {
                ++at;
                continue;
            }
            std::int32_t id = 0;
            const auto [stop, error] = std::from_chars(at, end, id);
            if (error != std::errc() || (stop != end && *stop != ' '))
                throw Error(ErrorCategory::data,
                            concat("standard input:", number, ": \"",
                                   std::string_view(
                                       at, std::min<std::size_t>(20, static_cast<std::size_t>(end - at))),
                                   "\" is not a token id"));
            ids.push_back(id);
            at = stop;
        }
        std::cout << tokenizer->decode(ids) << '\n';
    });
    return 0;
}

} // namespace trireme::data_tools
