// The cached pair is written by preprocess() and so appears complete or not at all. Two jobs may prepare the
// same file at once: both write the same bytes under names of their own, and the last rename wins.
#include "trireme/data/prepare.hpp"

#include <array>
#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>

#include "data/bpe_vocabulary.hpp"
#include "data/index_format.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/output_file.hpp"

namespace trireme::data {

namespace fs = std::filesystem;

constexpr const char* kKey = "text";
constexpr const char* kEnding = "_text_document"; // what preprocess() appends

bool is_text_file(const std::string& word) {
    std::error_code ignored;
    // One file of a pair is no text: the dataset says that its prefix is needed.
    const bool of_pair = word.ends_with(".bin") || word.ends_with(".idx");
    return !of_pair && fs::is_regular_file(word, ignored) && !fs::exists(index_path(word), ignored);
}

std::string prepared_prefix(const std::string& file, const std::string& cache_directory,
                            const Tokenizer& tokenizer) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0)
        throw Error(ErrorCategory::data, concat("cannot examine ", file, ": ", system_reason()));
    // The format's number changes when the same input would give other tokens.
    const std::string what = concat("format 1 ", status.st_size, " ", status.st_mtim.tv_sec, ".",
                                    status.st_mtim.tv_nsec, " ", kKey, " end of document");
    std::array<char, 17> key{};
    std::snprintf(key.data(), key.size(), "%016llx",
                  static_cast<unsigned long long>(hash_bytes(what, tokenizer.fingerprint())));
    const fs::path directory = cache_directory.empty() ? directory_of(file) : fs::path(cache_directory);
    return (directory / concat(fs::path(file).filename().string(), ".", key.data(), kEnding)).string();
}

PairSizes pair_sizes(const std::string& prefix) {
    const auto size = [](const std::string& path) -> std::int64_t {
        std::error_code error;
        const auto bytes = fs::file_size(path, error);
        return error ? -1 : static_cast<std::int64_t>(bytes);
    };
    return {size(token_path(prefix)), size(index_path(prefix))};
}

std::vector<fs::path> remove_leftovers(const std::string& prefix) {
    // Of every state of the text file: PREFIX is FILE.KEY_text_document with a key of 16 digits.
    const std::size_t after_file = std::string_view(kEnding).size() + 16;
    return remove_stale_temporaries(prefix.substr(0, prefix.size() - after_file));
}

PreprocessResult prepare(const std::string& file, const std::string& prefix, const Tokenizer& tokenizer,
                         int workers, const std::function<void(const PreprocessProgress&)>& progress) {
    const fs::path directory = directory_of(prefix);
    std::error_code failure;
    fs::create_directories(directory, failure);
    if (failure || ::access(directory.c_str(), W_OK | X_OK) != 0)
        throw Error(ErrorCategory::output,
                    concat("cannot write the tokens of ", file, " into ", directory.string(), ": ",
                           failure ? failure.message() : system_reason()),
                    {"try: --data-cache-path DIR, a directory that all nodes see and that you may write to"});
    PreprocessOptions job;
    job.inputs = {file};
    job.output_prefix = prefix.substr(0, prefix.size() - std::string_view(kEnding).size());
    job.json_keys = {kKey};
    job.end_of_document = EndOfDocument::append;
    job.workers = workers;
    job.older_pair = OlderPair::same_bytes;
    return preprocess(tokenizer, job, progress);
}

} // namespace trireme::data
