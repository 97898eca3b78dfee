// The trireme-data program: prepares text for training. Every error is one message on standard error.
#include <array>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string_view>

#include "commands.hpp"
#include "trireme/base/error.hpp"

namespace {

struct Command {
    std::string_view name;
    int (*run)(const trireme::data_tools::Arguments&);
    std::string_view help;
};

using namespace trireme::data_tools;

constexpr std::array kCommands = {
    Command{"collect", collect, "gather text files of this machine into JSONL, without duplicates"},
    Command{"train-bpe", train_bpe, "learn a GPT-2 style vocabulary: vocab.json and merges.txt"},
    Command{"preprocess", preprocess, "JSONL to the .bin/.idx files that training reads"},
    Command{"inspect", inspect, "what a .bin/.idx pair holds"},
    Command{"verify", verify, "check every rule of a .bin/.idx pair and all of its ids"},
    Command{"merge", merge, "several .bin/.idx pairs into one"},
    Command{"tokenize", tokenize, "a document a line in, its ids out"},
    Command{"detokenize", detokenize, "ids in, a document a line out"},
};

void print_help(std::ostream& out) {
    out << "usage: trireme-data COMMAND [OPTIONS]\n\n";
    for (const Command& command : kCommands)
        out << "  " << command.name << std::string(14 - command.name.size(), ' ') << command.help << "\n";
    out << "\ntrireme-data COMMAND --help shows the options of a command.\n";
}

int run(const Arguments& words) {
    if (words.empty()) {
        print_help(std::cerr);
        return static_cast<int>(trireme::ErrorCategory::usage);
    }
    if (words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
        print_help(std::cout);
        return 0;
    }
    for (const Command& command : kCommands)
        if (command.name == words.front())
            return command.run({words.begin() + 1, words.end()});
    throw trireme::Error(trireme::ErrorCategory::usage,
                         trireme::concat("there is no command ", words.front()),
                         {"try: trireme-data --help"});
}

} // namespace

int main(int argc, char** argv) {
    try {
        const int status = run({argv + 1, argv + argc});
        std::cout.flush();
        if (!std::cout)
            throw trireme::Error(trireme::ErrorCategory::output, "cannot write to standard output");
        return status;
    } catch (const trireme::Error& error) {
        std::cerr << error.message();
        return error.exit_code();
    } catch (const std::bad_alloc&) {
        std::cerr << "trireme: error: out of memory\n";
        return static_cast<int>(trireme::ErrorCategory::device);
    } catch (const std::exception& error) {
        std::cerr << "trireme: error: " << error.what() << "\n";
        return static_cast<int>(trireme::ErrorCategory::internal);
    }
}
