// Short cuts of the option tests: command lines as one text, temporary files, and the message of an Error.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "trireme/base/error.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::options::testing {

// What every pretrain command needs, and no more; DP 1 on one rank.
inline constexpr std::string_view kMinimal =
    "--num-layers 2 --hidden-size 8 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 32 "
    "--micro-batch-size 1 --train-iters 10 --lr 0.001 --data-path corpus --tokenizer-type GPT2BPETokenizer "
    "--vocab-file vocab.json --merge-file merges.txt ";

inline std::vector<std::string> words(std::string_view text) {
    std::istringstream in{std::string(text)};
    std::vector<std::string> result;
    for (std::string word; in >> word;)
        result.push_back(word);
    return result;
}

inline Parsed parse_line(std::string_view text, Command command = Command::pretrain) {
    return parse(command, words(text));
}

inline Resolved resolve_line(std::string_view text, std::int64_t ranks = 1) {
    return resolve(parse_line(text), {.ranks = ranks});
}

// The whole message as the user sees it; "no error" if the options were taken.
inline std::string message_of(const Parsed& parsed, const Environment& environment) {
    try {
        resolve(parsed, environment);
        return "no error";
    } catch (const Error& error) {
        return error.category() == ErrorCategory::usage ? error.message()
                                                        : "not a usage error: " + error.message();
    }
}

inline std::string message_of(std::string_view text, std::int64_t ranks = 1) {
    return message_of(parse_line(text), {.ranks = ranks});
}

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "trireme-options-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    std::string write(const std::string& name, std::string_view text) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name) << text;
        return (path_ / name).string();
    }
    std::string path(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

} // namespace trireme::options::testing
