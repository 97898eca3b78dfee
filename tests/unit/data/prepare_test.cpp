// JSONL straight to training: what counts as such a file, what the cache is keyed by, what is written.
#include "trireme/data/prepare.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data_test_support.hpp"
#include "trireme/base/output_file.hpp"

namespace trireme::data {
namespace {

TEST(Prepare, FindsAPairByFileSizeTimeAndTokenizer) {
    const TemporaryDirectory directory;
    const std::string file =
        directory.write("a.jsonl", "{\"text\": \"1 2\"}\n{\"text\": \"\"}\n{\"text\": \"3\"}\n").string();
    EXPECT_TRUE(is_text_file(file));
    EXPECT_FALSE(is_text_file(directory.prefix("none")));
    EXPECT_FALSE(is_text_file(directory.prefix("")));
    const auto tokenizer = make_null_tokenizer(10), other = make_null_tokenizer(11);
    const std::string prefix = prepared_prefix(file, "", *tokenizer);
    EXPECT_TRUE(prefix.starts_with(file + ".")) << prefix;
    EXPECT_EQ(prepared_prefix(file, "", *tokenizer), prefix);
    EXPECT_NE(prepared_prefix(file, "", *other), prefix);
    EXPECT_TRUE(prepared_prefix(file, "/cache", *tokenizer).starts_with("/cache/a.jsonl."));

    EXPECT_FALSE(pair_sizes(prefix).complete());
    EXPECT_EQ(prepare(file, prefix, *tokenizer, 2).documents, 3);
    EXPECT_TRUE(pair_sizes(prefix).complete());
    EXPECT_EQ(read_independently(prefix), (Documents{{1, 2, 10}, {}, {3, 10}}));

    std::filesystem::last_write_time(file,
                                     std::filesystem::last_write_time(file) + std::chrono::milliseconds(5));
    EXPECT_NE(prepared_prefix(file, "", *tokenizer), prefix) << "another time";
    EXPECT_FALSE(is_text_file(prefix)) << "a prefix is no file";
    directory.write("b", "text");
    directory.write("b.idx", "");
    EXPECT_FALSE(is_text_file(directory.prefix("b"))) << "the prefix of a pair wins";
}

TEST(Prepare, NamesBadLinesAndDirectories) {
    const TemporaryDirectory directory;
    const std::string file = directory.write("a.jsonl", "{\"text\": \"1\"}\n{\"text\": \"1 x\"}\n").string();
    const auto tokenizer = make_null_tokenizer(10);
    const std::string prefix = prepared_prefix(file, directory.prefix("made/anew"), *tokenizer);
    const std::string message = message_of([&] { prepare(file, prefix, *tokenizer, 1); });
    EXPECT_NE(message.find("a.jsonl:2: \"x\" is no token id"), std::string::npos) << message;
    EXPECT_FALSE(pair_sizes(prefix).complete());
    EXPECT_TRUE(std::filesystem::is_directory(directory.prefix("made/anew")));
    const std::string nowhere = prepared_prefix(file, file + "/x", *tokenizer);
    EXPECT_EQ(exit_code_of([&] { prepare(file, nowhere, *tokenizer, 1); }), 74);
    EXPECT_NE(message_of([&] { prepare(file, nowhere, *tokenizer, 1); }).find("--data-cache-path"),
              std::string::npos);
}

// A process that runs `work` and exits with 0, or with 1 where it throws.
template <class Work>
pid_t start_process(const Work& work) {
    const pid_t process = ::fork();
    if (process == 0) {
        try {
            work();
        } catch (...) {
            ::_exit(1);
        }
        ::_exit(0);
    }
    return process;
}

TEST(Prepare, TwoJobsAtOnceNeverTakeThePairAway) {
    const TemporaryDirectory directory;
    std::string lines;
    Documents expected;
    for (int line = 0; line < 200; ++line) {
        lines += concat("{\"text\": \"", line, " 7\"}\n");
        expected.push_back({line, 7, 300});
    }
    const std::string file = directory.write("a.jsonl", lines).string();
    const auto tokenizer = make_null_tokenizer(300);
    const std::string prefix = prepared_prefix(file, "", *tokenizer);
    prepare(file, prefix, *tokenizer, 1); // the job that is faster, and now trains
    std::vector<pid_t> jobs;
    for (int job = 0; job < 2; ++job)
        jobs.push_back(start_process([&] {
            for (int round = 0; round < 20; ++round)
                prepare(file, prefix, *tokenizer, 2);
        }));
    const PairSizes sizes = pair_sizes(prefix);
    std::int64_t looks = 0, wrong = 0;
    for (int running = 2; running > 0; ++looks) {
        wrong += pair_sizes(prefix) != sizes;
        int status = 0;
        if (::waitpid(jobs[static_cast<std::size_t>(running) - 1], &status, WNOHANG) > 0) {
            EXPECT_EQ(status, 0);
            --running;
        }
    }
    EXPECT_EQ(wrong, 0) << "of " << looks << " looks";
    EXPECT_EQ(read_independently(prefix), expected);
    std::int64_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.prefix("")))
        ++files;
    EXPECT_EQ(files, 3) << "a.jsonl, .bin and .idx, nothing temporary";
}

TEST(Prepare, RemovesWhatKilledPreparationsLeft) {
    const TemporaryDirectory directory;
    const std::string file = directory.write("a.jsonl", "{\"text\": \"1\"}\n").string();
    const auto tokenizer = make_null_tokenizer(10);
    const std::string prefix = prepared_prefix(file, "", *tokenizer);
    // The names are those that a process writes which dies in the middle.
    const pid_t killed = start_process([&] {
        const OutputFile bin(prefix + ".bin"), idx(prefix + ".idx");
        const OutputFile before(file + ".0123456789abcdef_text_document.bin"); // of another state of the file
        const OutputFile other(directory.prefix("b.jsonl.0123456789abcdef_text_document.bin"));
        ::_exit(7);
    });
    int status = 0;
    ASSERT_EQ(::waitpid(killed, &status, 0), killed);
    ASSERT_EQ(WEXITSTATUS(status), 7);
    const OutputFile living(prefix + ".bin");
    const std::string ending = concat(".", killed);
    directory.write(concat("a.jsonl.x.tmp.another-host", ending), "");
    directory.write(concat("a.jsonl.x.tmp", ending), "");

    const std::vector<std::filesystem::path> removed = remove_leftovers(prefix);
    ASSERT_EQ(removed.size(), 3u);
    for (const std::filesystem::path& path : removed) {
        EXPECT_TRUE(path.string().starts_with(file + ".") && path.string().ends_with(ending)) << path;
        EXPECT_FALSE(std::filesystem::exists(path));
    }
    std::int64_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.prefix("")))
        ++files;
    EXPECT_EQ(files, 5) << "the input, the living, another host's, another name's, another text's";
    EXPECT_TRUE(remove_leftovers(prefix).empty());
}

} // namespace
} // namespace trireme::data
