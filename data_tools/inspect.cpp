// trireme-data inspect: sizes of .bin/.idx pairs, the lengths of their documents, and single documents, or
// samples of what training is given.
#include <algorithm>
#include <array>
#include <bit>
#include <iostream>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/data/prepare.hpp"

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

// The prefixes among the words of a path, and JSONL files replaced by the prefixes of their tokens.
static std::vector<std::string> open_path(std::vector<std::string>& words, const std::string& option,
                                          const std::string& cache, const data::Tokenizer* tokenizer) {
    for (std::string& word : words) {
        if (!data::is_text_file(word))
            continue;
        if (tokenizer == nullptr)
            throw Error(
                ErrorCategory::usage,
                concat(word, " is text: which tokens training has made of it depends on the tokenizer"),
                {"try: the tokenizer options of the training run"});
        const std::string prefix = data::prepared_prefix(word, cache, *tokenizer);
        if (!data::pair_sizes(prefix).complete())
            throw Error(
                ErrorCategory::data, concat("the tokens of ", word, " are not there: ", prefix, ".bin"),
                {"the first training run on it writes them, under a name that its tokenizer, size and "
                 "time give",
                 "try: the same tokenizer and --data-cache-path as in training"});
        word = prefix;
    }
    std::vector<std::string> prefixes;
    for (const data::BlendWord& word : data::parse_blend(words, option))
        prefixes.push_back(word.prefix);
    return prefixes;
}

static void print_document(const data::IndexedDataset& file, std::int64_t document,
                           const data::Tokenizer* tokenizer) {
    if (document < 0 || document >= file.documents())
        throw Error(ErrorCategory::usage,
                    concat("--document ", document, ": there are ", file.documents(), ", counted from 0"));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file.document_length(document)));
    file.read(file.document_begin(document), ids);
    print_tokens(concat("document ", document), ids, tokenizer);
}

static void print_sample(const data::DatasetOptions& options, data::Split part, std::int64_t sample,
                         const data::Tokenizer* tokenizer) {
    const data::Dataset dataset(options);
    if (!dataset.has(part))
        throw Error(ErrorCategory::usage, concat("--part ", data::name_of(part), " is empty"),
                    {"try: a share for it in --split, or a path of its own"});
    std::vector<std::int32_t> ids(static_cast<std::size_t>(options.sequence_length) + 1);
    dataset.read(part, sample, ids);
    print_tokens(
        concat("sample ", sample, " of ", data::name_of(part), ", from ", dataset.prefix_of(part, sample)),
        ids, tokenizer);
}

int inspect(const Arguments& arguments) {
    constexpr std::array<const char*, 4> kPaths = {"data-path", "train-data-path", "valid-data-path",
                                                   "test-data-path"};
    po::options_description options("Options");
    const auto words = [] { return po::value<std::vector<std::string>>()->multitoken(); };
    options.add_options()(
        "data-path", words(),
        "PREFIX of PREFIX.bin and PREFIX.idx (also without the name), or what else training "
        "takes: several, weights before them, JSONL that training has prepared");
    for (const char* path : {"train-data-path", "valid-data-path", "test-data-path"})
        options.add_options()(path, words(), "as in training");
    options.add_options()("data-cache-path", po::value<std::string>()->default_value(""), "as in training");
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
    const auto given =
        parse_arguments(arguments, "inspect DATA-PATH [--document K] [--sample K --seq-length N] [OPTIONS]",
                        options, "data-path");
    if (!given)
        return 0;
    const std::unique_ptr<data::Tokenizer> tokenizer =
        names_tokenizer(*given) ? make_tokenizer(*given) : nullptr;
    constexpr std::int64_t kAnyId = std::int64_t{1} << 31;
    data::DatasetOptions wanted;
    wanted.split = (*given)["split"].as<std::string>();
    wanted.seed = (*given)["seed"].as<std::uint64_t>();
    wanted.vocab_size = tokenizer ? tokenizer->vocab_size() : kAnyId;
    std::vector<std::string> prefixes;
    for (std::size_t index = 0; index < kPaths.size(); ++index) {
        if (!given->count(kPaths[index]))
            continue;
        std::vector<std::string>& path = index == 0 ? wanted.data_path : wanted.part_paths[index - 1];
        path = (*given)[kPaths[index]].as<std::vector<std::string>>();
        for (std::string& prefix : open_path(path, concat("--", kPaths[index]),
                                             (*given)["data-cache-path"].as<std::string>(), tokenizer.get()))
            if (std::find(prefixes.begin(), prefixes.end(), prefix) == prefixes.end())
                prefixes.push_back(std::move(prefix));
    }
    if (prefixes.empty())
        throw Error(ErrorCategory::usage, "nothing to inspect: no --data-path",
                    {"try: trireme-data inspect PREFIX"});
    if (!wanted.data_path.empty() && std::any_of(wanted.part_paths.begin(), wanted.part_paths.end(),
                                                 [](const auto& path) { return !path.empty(); }))
        throw Error(ErrorCategory::usage, "--data-path and paths for each part exclude each other");
    if (given->count("document") && prefixes.size() > 1)
        throw Error(ErrorCategory::usage, "--document needs one PREFIX");

    for (const std::string& prefix : prefixes) {
        const data::IndexedDataset file(prefix);
        file.verify();
        if (prefixes.size() > 1)
            std::cout << prefix << ": ";
        print_summary(file);
        if (given->count("document"))
            print_document(file, (*given)["document"].as<std::int64_t>(), tokenizer.get());
    }
    if (!given->count("sample"))
        return 0;
    if (!given->count("seq-length"))
        throw Error(ErrorCategory::usage, "--sample needs --seq-length");
    const std::int64_t sample = (*given)["sample"].as<std::int64_t>();
    wanted.sequence_length = (*given)["seq-length"].as<std::int64_t>();
    if (sample < 0 || wanted.sequence_length < 1)
        throw Error(ErrorCategory::usage,
                    concat("--sample ", sample, " --seq-length ", wanted.sequence_length,
                           ": 0 or more, and 1 or more, are needed"));
    print_sample(wanted, part_named((*given)["part"].as<std::string>()), sample, tokenizer.get());
    return 0;
}

} // namespace trireme::data_tools
