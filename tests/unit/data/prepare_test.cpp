// JSONL straight to training: what counts as such a file, what the cache is keyed by, what is written.
#include "trireme/data/prepare.hpp"

#include <chrono>
#include <gtest/gtest.h>

#include "data_test_support.hpp"

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

} // namespace
} // namespace trireme::data
