// trireme-data inspect: sizes of a .bin/.idx pair, the lengths of its documents, and single documents or
// samples.
#include <algorithm>
#include <bit>
#include <iostream>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/dataset.hpp"

namespace trireme::data_tools {

namespace po = boost::program_options;

static void print_summary(const data::IndexedDataset& file) {
    const auto [bytes, name] = std::pair(data::bytes_per_token(file.type()), static_cast<int>(file.type()));
    std::cout << "documents " << file.documents() << ", tokens " << file.tokens() << ", " << bytes
              << " bytes a token (type code " << name << "), " << show_bytes(file.tokens() * bytes) << "\n";
    if (file.documents() == 0)
        return;
    std::vector<std::int64_t> count(65, 0); // by number of binary digits of the length
    std::int64_t longest = 0;
    for (std::int64_t document = 0; document < file.documents(); ++document) {
        const std::int64_t length = file.document_length(document);
        ++count[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)))];
        longest = std::max(longest, length);
    }
    std::cout << "tokens a document: mean " << file.tokens() / file.documents() << ", longest " << longest
              << "\n";
    for (std::size_t digits = 0; digits < count.size(); ++digits)
        if (count[digits] > 0) {
            const std::uint64_t from = digits == 0 ? 0 : std::uint64_t{1} << (digits - 1);
            const std::uint64_t to = digits == 0 ? 0 : 2 * from - 1;
            std::cout << "  " << from << (to == from ? "" : concat(" to ", to)) << ": " << count[digits]
                      << "\n";
        }
}

static void print_tokens(const std::string& title, const std::vector<std::int32_t>& ids,
                         const data::Tokenizer* tokenizer) {
    std::cout << title << ":";
    for (const std::int32_t id : ids)
        std::cout << ' ' << id;
    std::cout << "\n";
    if (tokenizer != nullptr)
        std::cout << tokenizer->decode(ids) << "\n";
}

static data::Split part_named(const std::string& name) {
    for (const data::Split split : data::kSplits)
        if (name == data::name_of(split))
            return split;
    throw Error(ErrorCategory::usage, concat("--part ", name, " is not known: train, valid or test"));
}

int inspect(const Arguments& arguments) {
    po::options_description options("Options");
    options.add_options()("prefix", po::value<std::string>()->required(),
                          "PREFIX of PREFIX.bin and PREFIX.idx (also without the name)");
    options.add_options()("document", po::value<std::int64_t>(),
                          "show the tokens of this document, and its text given a tokenizer");
    options.add_options()("sample", po::value<std::int64_t>(),
                          "show this sample as training sees it; needs --seq-length");
    options.add_options()("part", po::value<std::string>()->default_value("train"),
                          "of which part the sample is: train, valid or test");
    options.add_options()("seq-length", po::value<std::int64_t>(), "as in training");
    options.add_options()("split", po::value<std::string>()->default_value("969,30,1"), "as in training");
    options.add_options()("seed", po::value<std::uint64_t>()->default_value(1234), "as in training");
    add_tokenizer_options(options);
    const auto given = parse_arguments(
        arguments, "inspect PREFIX [--document K] [--sample K --seq-length N] [OPTIONS]", options, "prefix");
    if (!given)
        return 0;
    const data::IndexedDataset file((*given)["prefix"].as<std::string>());
    file.verify();
    const std::unique_ptr<data::Tokenizer> tokenizer =
        names_tokenizer(*given) ? make_tokenizer(*given) : nullptr;
    print_summary(file);
    if (given->count("document")) {
        const std::int64_t document = (*given)["document"].as<std::int64_t>();
        if (document < 0 || document >= file.documents())
            throw Error(ErrorCategory::usage, concat("--document ", document, ": there are ",
                                                     file.documents(), ", counted from 0"));
        std::vector<std::int32_t> ids(static_cast<std::size_t>(file.document_length(document)));
        file.read(file.document_begin(document), ids);
        print_tokens(concat("document ", document), ids, tokenizer.get());
    }
    if (given->count("sample")) {
        if (!given->count("seq-length"))
            throw Error(ErrorCategory::usage, "--sample needs --seq-length");
        const std::int64_t sample = (*given)["sample"].as<std::int64_t>(),
                           length = (*given)["seq-length"].as<std::int64_t>();
        if (sample < 0 || length < 1)
            throw Error(ErrorCategory::usage, concat("--sample ", sample, " --seq-length ", length,
                                                     ": 0 or more, and 1 or more, are needed"));
        constexpr std::int64_t kAnyId = std::int64_t{1} << 31;
        const data::Dataset dataset({{file.prefix()},
                                     (*given)["split"].as<std::string>(),
                                     length,
                                     (*given)["seed"].as<std::uint64_t>(),
                                     tokenizer ? tokenizer->vocab_size() : kAnyId,
                                     {}});
        std::vector<std::int32_t> ids(static_cast<std::size_t>(length) + 1);
        const data::Split part = part_named((*given)["part"].as<std::string>());
        dataset.read(part, sample, ids);
        print_tokens(concat("sample ", sample, " of ", data::name_of(part)), ids, tokenizer.get());
    }
    return 0;
}

} // namespace trireme::data_tools
