// Shared by the sub-commands: strict parsing, the tokenizer options, the progress line.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <unistd.h>

#include "commands.hpp"
#include "trireme/base/error.hpp"

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

void add_tokenizer_options(po::options_description& options) {
    options.add_options()("tokenizer-type", po::value<std::string>()->default_value("GPT2BPETokenizer"),
                          "GPT2BPETokenizer: byte-level BPE from --vocab-file and --merge-file");
    options.add_options()("vocab-file", po::value<std::string>(), "vocab.json");
    options.add_options()("merge-file", po::value<std::string>(), "merges.txt");
}

bool names_tokenizer(const po::variables_map& given) {
    return given.count("vocab-file") || given.count("merge-file");
}

std::unique_ptr<data::Tokenizer> make_tokenizer(const po::variables_map& given) {
    const std::string& type = given["tokenizer-type"].as<std::string>();
    if (type != "GPT2BPETokenizer")
        throw Error(ErrorCategory::usage,
                    concat("--tokenizer-type ", type, " is not known: GPT2BPETokenizer is"));
    for (const char* option : {"vocab-file", "merge-file"})
        if (!given.count(option))
            throw Error(ErrorCategory::usage, concat("--tokenizer-type ", type, " needs --", option));
    return data::load_gpt2_bpe(given["vocab-file"].as<std::string>(), given["merge-file"].as<std::string>());
}

static double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressLine::ProgressLine() : on_terminal_(::isatty(STDERR_FILENO) == 1), start_(now_seconds()) {}

ProgressLine::~ProgressLine() {
    if (width_ > 0)
        std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
}

double ProgressLine::seconds() const {
    return now_seconds() - start_;
}

bool ProgressLine::due() {
    if (!on_terminal_ || now_seconds() - shown_ < 0.5)
        return false;
    shown_ = now_seconds();
    return true;
}

void ProgressLine::show(const std::string& text) {
    std::fprintf(stderr, "\r%-*s", static_cast<int>(width_), text.c_str());
    std::fflush(stderr);
    width_ = std::max(width_, text.size());
}

} // namespace trireme::data_tools
