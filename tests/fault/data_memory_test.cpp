// trireme-data preprocess promises less than 512 MB of memory whatever the input. Files that hold what takes
// most, words of 60 MB among ordinary lines, with few threads and with many; the peak is the system's own
// count.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "support/test_level.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kPromise = 512'000'000;
constexpr std::size_t kWord = 60'000'000;

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "trireme_memory_test_XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name;
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string path(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

// Written piece by piece: what this process takes counts as its child's, too, until the program is started.
class Corpus {
  public:
    explicit Corpus(const std::string& path) : out_(path, std::ios::binary) {}

    void add_ordinary_lines(std::int64_t bytes) {
        while (bytes > 0) {
            std::string line = "{\"text\": \"";
            for (int word = 0; word < 200; ++word)
                line += letters(1 + random_() % 12) + " ";
            line += "\"}\n";
            bytes -= static_cast<std::int64_t>(line.size());
            out_ << line;
        }
    }
    void add_word_of_letters() {
        out_ << "{\"text\": \"";
        for (std::size_t bytes = 0; bytes < kWord; bytes += 1'000'000)
            out_ << letters(1'000'000);
        out_ << "\"}\n";
    }
    // Cuneiform, of which no merge knows more than the first two bytes: more tokens than any other text has.
    void add_word_of_many_tokens() {
        out_ << "{\"text\": \"";
        for (std::size_t bytes = 0; bytes < kWord; bytes += 4)
            out_ << "\xF0\x92" << static_cast<char>(0x80 + random_() % 14)
                 << static_cast<char>(0x80 + random_() % 64);
        out_ << "\"}\n";
    }

  private:
    std::string letters(std::size_t count) {
        std::string text(count, ' ');
        for (char& letter : text)
            letter = static_cast<char>('a' + random_() % 26);
        return text;
    }

    std::mt19937 random_{1};
    std::ofstream out_;
};

// Bytes; -1 when the program fails.
std::int64_t peak_of_preprocess(const TemporaryDirectory& directory, int workers) {
    const char* const bin = std::getenv("TRIREME_BIN");
    std::vector<std::string> words = {std::string(bin != nullptr ? bin : "build/bin") + "/trireme-data",
                                      "preprocess",
                                      "--input",
                                      directory.path("in.jsonl"),
                                      "--output-prefix",
                                      directory.path("out"),
                                      "--vocab-file",
                                      "tests/data/gpt2/vocab.json",
                                      "--merge-file",
                                      "tests/data/gpt2/merges.txt",
                                      "--workers",
                                      std::to_string(workers)};
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        const int quiet = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
        ::dup2(quiet, STDOUT_FILENO);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = 0;
    struct rusage used {};
    EXPECT_EQ(::wait4(child, &status, 0, &used), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::int64_t{1024} * used.ru_maxrss : -1;
}

void expect_promise_held(const TemporaryDirectory& directory, int workers) {
    const std::int64_t peak = peak_of_preprocess(directory, workers);
    EXPECT_GT(peak, 0) << "preprocess failed";
    EXPECT_LE(peak, kPromise) << workers << " workers";
    std::cout << workers << " workers: " << peak / 1'000'000 << " MB\n";
}

TEST(DataMemory, AWordOf60Megabytes) {
    const TemporaryDirectory directory;
    {
        Corpus corpus(directory.path("in.jsonl"));
        corpus.add_ordinary_lines(2'000'000);
        corpus.add_word_of_letters();
        corpus.add_ordinary_lines(2'000'000);
    }
    expect_promise_held(directory, 16);
    if (test::full())
        expect_promise_held(directory, 1);
}

TEST(DataMemory, WordsOfManyTokens) {
    const TemporaryDirectory directory;
    const bool full = test::full();
    {
        Corpus corpus(directory.path("in.jsonl"));
        corpus.add_ordinary_lines(full ? 60'000'000 : 1'000'000);
        for (int word = 0; word < (full ? 3 : 1); ++word) {
            corpus.add_word_of_many_tokens();
            corpus.add_ordinary_lines(1'000'000);
        }
        corpus.add_ordinary_lines(full ? 30'000'000 : 0); // which fill the memory of many workers
    }
    for (const int workers : full ? std::vector<int>{1, 16, 64} : std::vector<int>{1})
        expect_promise_held(directory, workers);
}

} // namespace
} // namespace trireme
