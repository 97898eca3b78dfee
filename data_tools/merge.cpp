// trireme-data merge and verify: whole .bin/.idx pairs.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/copy_documents.hpp"

namespace trireme::data_tools {

namespace po = boost::program_options;

int merge(const Arguments& arguments) {
    po::options_description options("Options");
    options.add_options()("input", po::value<std::vector<std::string>>()->multitoken()->required(),
                          "PREFIX of each pair, in the order wanted");
    options.add_options()("output-prefix", po::value<std::string>()->required(),
                          "writes PREFIX.bin and .idx");
    const auto given = parse_arguments(arguments, "merge --input PREFIX... --output-prefix PREFIX", options);
    if (!given)
        return 0;
    const auto inputs = (*given)["input"].as<std::vector<std::string>>();
    const auto output = (*given)["output-prefix"].as<std::string>();
    std::error_code ignored;
    for (const std::string& input : inputs)
        if (std::filesystem::equivalent(input + ".bin", output + ".bin", ignored))
            throw Error(ErrorCategory::usage, concat("--output-prefix ", output, " is one of the inputs"));
    remove_unfinished(output);
    {
        ProgressLine line;
        data::merge_documents(inputs, output, [&](std::int64_t tokens) {
            line.update([&] {
                return concat(show_count(static_cast<double>(tokens)), " tokens, ",
                              show_count(static_cast<double>(tokens) / std::max(line.seconds(), 1e-3)),
                              " tokens/s");
            });
        });
    }
    const data::IndexedDataset merged(output);
    std::cout << "documents " << merged.documents() << ", tokens " << merged.tokens() << "\n--data-path "
              << output << "\n";
    return 0;
}

int verify(const Arguments& arguments) {
    po::options_description options("Options");
    options.add_options()("prefix", po::value<std::string>()->required(),
                          "PREFIX of PREFIX.bin and PREFIX.idx (also without the name)");
    add_tokenizer_options(options);
    const auto given = parse_arguments(arguments, "verify PREFIX [--vocab-file FILE --merge-file FILE | ...]",
                                       options, "prefix");
    if (!given)
        return 0;
    constexpr std::int64_t kAnyId = std::int64_t{1} << 31;
    const bool named = names_tokenizer(*given);
    const std::int64_t vocab_size = named ? make_tokenizer(*given)->vocab_size() : kAnyId;
    const data::IndexedDataset file((*given)["prefix"].as<std::string>());
    file.verify();
    file.forget();
    data::IdRange ids;
    {
        ProgressLine line;
        ids = data::verify_ids(file, vocab_size, [&](std::int64_t tokens) {
            line.update([&] {
                return concat(tokens * 100 / file.tokens(), " % of ",
                              show_count(static_cast<double>(file.tokens())), " tokens");
            });
        });
    }
    std::cout << "good: documents " << file.documents() << ", tokens " << file.tokens();
    if (file.tokens() > 0)
        std::cout << ", ids " << ids.smallest << " to " << ids.largest;
    std::cout << (named ? concat(" within the vocabulary of ", vocab_size) : "") << "\n";
    return 0;
}

} // namespace trireme::data_tools
