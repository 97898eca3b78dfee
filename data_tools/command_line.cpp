// Shared by the sub-commands: strict parsing, the tokenizer options, the progress line.
#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <string_view>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/output_file.hpp"

namespace trireme::data_tools {

namespace po = boost::program_options;

std::optional<po::variables_map> parse_arguments(const Arguments& arguments, const std::string& usage,
                                                 const po::options_description& options,
                                                 const std::string& positional) {
    po::options_description all("Options");
    all.add(options).add_options()("help,h", "show this text");
    po::positional_options_description words;
    if (!positional.empty())
        words.add(positional.c_str(), -1);
    po::variables_map given;
    try {
        // An abbreviated name would change its meaning when an option is added, so it is an error.
        const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
        po::store(po::command_line_parser(arguments).options(all).positional(words).style(style).run(),
                  given);
        if (given.count("help")) {
            std::cout << "usage: trireme-data " << usage << "\n\n" << all;
            return std::nullopt;
        }
        po::notify(given);
    } catch (const po::error& error) {
        throw Error(ErrorCategory::usage, error.what(),
                    {concat("usage: trireme-data ", usage), "try: --help"});
    }
    return given;
}

void remove_unfinished(const std::string& start) {
    const std::vector<std::filesystem::path> removed = remove_stale_temporaries(start);
    if (!removed.empty())
        std::cerr << "removed " << removed.size() << " unfinished file" << (removed.size() == 1 ? "" : "s")
                  << " of killed runs, the first is " << removed.front().string() << "\n";
}

void add_tokenizer_options(po::options_description& options) {
    options.add_options()(
        "tokenizer-type", po::value<std::string>()->default_value("GPT2BPETokenizer"),
        "GPT2BPETokenizer: byte-level BPE from --vocab-file and --merge-file; HFTokenizerFile: "
        "a tokenizer.json of that family, --tokenizer-model; NullTokenizer: numbers in the text, "
        "--vocab-size");
    options.add_options()("vocab-file", po::value<std::string>(), "vocab.json");
    options.add_options()("merge-file", po::value<std::string>(), "merges.txt");
    options.add_options()("tokenizer-model", po::value<std::string>(), "tokenizer.json");
    options.add_options()("vocab-size", po::value<std::int64_t>(), "ids of NullTokenizer");
    options.add_options()("allow-special", po::bool_switch(),
                          "special tokens spelt out in the text get their ids; otherwise they are text");
}

bool names_tokenizer(const po::variables_map& given) {
    for (const char* option : {"vocab-file", "merge-file", "tokenizer-model", "vocab-size"})
        if (given.count(option))
            return true;
    return false;
}

std::unique_ptr<data::Tokenizer> make_tokenizer(const po::variables_map& given) {
    const std::string& type = given["tokenizer-type"].as<std::string>();
    const data::SpecialTokens special =
        given["allow-special"].as<bool>() ? data::SpecialTokens::have_ids : data::SpecialTokens::are_text;
    const auto needs = [&](std::initializer_list<const char*> used) {
        for (const char* option : used)
            if (!given.count(option))
                throw Error(ErrorCategory::usage, concat("--tokenizer-type ", type, " needs --", option));
        for (const char* option : {"vocab-file", "merge-file", "tokenizer-model", "vocab-size"})
            if (given.count(option) && std::none_of(used.begin(), used.end(), [&](const char* one) {
                    return std::string_view(one) == option;
                }))
                throw Error(ErrorCategory::usage,
                            concat("--", option, " does nothing with --tokenizer-type ", type));
    };
    const auto file = [&](const char* option) { return given[option].as<std::string>(); };
    if (type == "GPT2BPETokenizer") {
        needs({"vocab-file", "merge-file"});
        return data::load_gpt2_bpe(file("vocab-file"), file("merge-file"), special);
    }
    if (type == "HFTokenizerFile") {
        needs({"tokenizer-model"});
        return data::load_hf_tokenizer(file("tokenizer-model"), special);
    }
    if (type == "NullTokenizer") {
        needs({"vocab-size"});
        if (special == data::SpecialTokens::have_ids)
            throw Error(ErrorCategory::usage,
                        "--allow-special does nothing with --tokenizer-type NullTokenizer");
        return data::make_null_tokenizer(given["vocab-size"].as<std::int64_t>());
    }
    throw Error(ErrorCategory::usage,
                concat("--tokenizer-type ", type,
                       " is not known: GPT2BPETokenizer, HFTokenizerFile and NullTokenizer are"));
}

} // namespace trireme::data_tools
