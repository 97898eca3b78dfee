// JSONL to token files: the documents by an independent reader, the same bytes for any number of workers, and
// every kind of bad line with its place.
#include "trireme/data/preprocess.hpp"

#include <gtest/gtest.h>
#include <random>
#include <zlib.h>
#include <zstd.h>

#include "data_test_support.hpp"
#include "trireme/base/file.hpp"
#include "trireme/data/text_source.hpp"

namespace trireme::data {
namespace {

const Tokenizer& gpt2() {
    static const std::unique_ptr<Tokenizer> tokenizer =
        load_gpt2_bpe("tests/data/gpt2/vocab.json", "tests/data/gpt2/merges.txt");
    return *tokenizer;
}

std::string gzip(const std::string& text) {
    z_stream stream = {};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

std::string zstd(const std::string& text) {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    std::string packed(ZSTD_compressBound(text.size()), '\0');
    packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
    ZSTD_freeCCtx(context);
    return packed;
}

PreprocessOptions job_for(const TemporaryDirectory& directory, std::vector<std::string> inputs) {
    PreprocessOptions job;
    job.inputs = std::move(inputs);
    job.output_prefix = directory.prefix("out");
    return job;
}

Documents documents_of(const TemporaryDirectory& directory, const std::string& content) {
    const auto input = directory.write("in.jsonl", content);
    preprocess(gpt2(), job_for(directory, {input.string()}));
    return read_independently(directory.prefix("out_text_document"));
}

TEST(Preprocess, WritesTheIdsOfEachText) {
    const TemporaryDirectory directory;
    const Documents expected = {gpt2().encode("Hello world"),
                                {},
                                gpt2().encode("a\n\"b\" \xC3\xA9 \xF0\x9F\x98\x80"),
                                gpt2().encode("<|endoftext|>")};
    const std::string lines = "{\"text\": \"Hello world\", \"id\": 7}\n{\"text\": \"\"}\n"
                              "{\"id\": {\"text\": 1}, \"text\": \"a\\n\\\"b\\\" \\u00e9 "
                              "\\ud83d\\ude00\"}\n{\"text\": \"<|endoftext|>\"}";
    EXPECT_EQ(documents_of(directory, lines), expected);
    std::string crlf = "\xEF\xBB\xBF\r\n  \n";
    for (const char character : lines)
        crlf += character == '\n' ? std::string("\r\n") : std::string(1, character);
    EXPECT_EQ(documents_of(directory, crlf + "\r\n\n\n"), expected);
    EXPECT_EQ(documents_of(directory, gzip(lines)), expected);
    EXPECT_EQ(
        documents_of(directory, gzip(lines.substr(0, 60)) + gzip(lines.substr(60)) + std::string(512, '\0')),
        expected);
    EXPECT_EQ(documents_of(directory, zstd(lines)), expected);
    EXPECT_EQ(documents_of(directory, zstd(lines.substr(0, 60)) + zstd(lines.substr(60))), expected);
    EXPECT_EQ(documents_of(directory, ""), Documents{});
}

TEST(Preprocess, EndsDocumentsThatAreNotEmpty) {
    const TemporaryDirectory directory;
    auto job = job_for(directory, {directory.write("a", "{\"text\": \"x\"}\n{\"text\": \"\"}").string(),
                                   directory.write("b", "{\"text\": \"y\"}").string()});
    job.end_of_document = EndOfDocument::append;
    const PreprocessResult result = preprocess(gpt2(), job);
    EXPECT_EQ(read_independently(directory.prefix("out_text_document")),
              (Documents{{87, 50256}, {}, {88, 50256}}));
    EXPECT_EQ(result.documents, 3);
    EXPECT_EQ(result.empty_documents, 1);
    EXPECT_EQ(result.tokens, 4);
}

TEST(Preprocess, WritesAPairForEachKey) {
    const TemporaryDirectory directory;
    auto job = job_for(directory, {directory.write("a", "{\"title\": \"x\", \"text\": \"y\"}\n").string()});
    job.json_keys = {"text", "title"};
    const PreprocessResult result = preprocess(gpt2(), job);
    EXPECT_EQ(result.prefixes, (std::vector<std::string>{directory.prefix("out_text_document"),
                                                         directory.prefix("out_title_document")}));
    EXPECT_EQ(read_independently(result.prefixes[0]), (Documents{{88}}));
    EXPECT_EQ(read_independently(result.prefixes[1]), (Documents{{87}}));
}

TEST(Preprocess, IsTheSameForAnyNumberOfWorkers) {
    const TemporaryDirectory directory;
    std::mt19937 random(3);
    std::string lines;
    while (lines.size() < 6'000'000) { // several blocks, and lines longer than one
        const std::size_t words =
            lines.size() > 2'000'000 && lines.size() < 2'001'000 ? 300'000 : random() % 60;
        lines += "{\"text\": \"";
        for (std::size_t word = 0; word < words; ++word)
            lines += concat("w", random() % 1000, " ");
        lines += random() % 100 == 0 ? "\n" : "\"}\n"; // one line in a hundred is bad
    }
    auto job = job_for(directory, {directory.write("in.jsonl", lines).string()});
    job.on_bad_line = OnBadLine::skip;
    std::string bin, idx;
    std::vector<std::string> bad;
    for (const int workers : {1, 2, 5}) {
        job.workers = workers;
        const PreprocessResult result = preprocess(gpt2(), job);
        const std::string new_bin = read_file(result.prefixes[0] + ".bin", ErrorCategory::data);
        const std::string new_idx = read_file(result.prefixes[0] + ".idx", ErrorCategory::data);
        if (workers == 1) {
            bin = new_bin, idx = new_idx, bad = result.first_bad_lines;
            EXPECT_EQ(result.documents + result.bad_lines, std::count(lines.begin(), lines.end(), '\n'));
            EXPECT_GT(result.bad_lines, 100);
            EXPECT_EQ(bad.size(), 10u);
        }
        EXPECT_TRUE(new_bin == bin && new_idx == idx) << workers;
        EXPECT_EQ(result.first_bad_lines, bad);
    }
}

// A block that is larger than what may be in flight goes straight to the files; a line of it that turns out
// to be bad leaves nothing there, for any key.
TEST(Preprocess, LinesOfManyMegabytesGoStraightToTheFiles) {
    const TemporaryDirectory directory;
    const auto tokenizer = make_null_tokenizer(100'000);
    std::string numbers;
    std::vector<std::int32_t> ids;
    for (std::int32_t number = 0; numbers.size() < 9'000'000; ++number) {
        ids.push_back(number % 100'000);
        numbers += concat(ids.back(), " ");
    }
    const std::string good = concat("{\"a\": \"", numbers, "\", \"b\": \"7 8\"}\n"),
                      bad = concat("{\"a\": \"", numbers, "\", \"b\": \"", numbers, "x\"}\n"),
                      small = "{\"a\": \"1\", \"b\": \"\"}\n";
    auto job = job_for(
        directory, {directory.write("in.jsonl", small + good + bad + small + bad + good + small).string()});
    job.json_keys = {"a", "b"};
    job.end_of_document = EndOfDocument::append;
    job.on_bad_line = OnBadLine::skip;
    ids.push_back(100'000);
    const Documents a = {{1, 100'000}, ids, {1, 100'000}, ids, {1, 100'000}},
                    b = {{}, {7, 8, 100'000}, {}, {7, 8, 100'000}, {}};
    for (const int workers : {1, 4}) {
        job.workers = workers;
        const PreprocessResult result = preprocess(*tokenizer, job);
        EXPECT_TRUE(read_independently(directory.prefix("out_a_document")) == a);
        EXPECT_TRUE(read_independently(directory.prefix("out_b_document")) == b);
        EXPECT_EQ(result.documents, 5);
        EXPECT_EQ(result.empty_documents, 3);
        ASSERT_EQ(result.bad_lines, 2);
        EXPECT_NE(result.first_bad_lines[1].find("in.jsonl:5: \"x\" is no token id"), std::string::npos);
    }
}

TEST(Preprocess, LinesThatWouldTakeTooMuchMemoryAreBadLines) {
    const TemporaryDirectory directory;
    const std::string start = "{\"text\": \"one\", \"other\": \"", end = "\"}";
    const std::string longest = start + std::string(kLongestLine - start.size() - end.size(), 'x') + end;
    std::string values = "{\"text\": \"two\", \"other\": [\"a,b\\\",\"";
    while (values.size() < 3'000'000)
        values += ",1";
    values += "]}";
    {
        std::ofstream out(directory / "in.jsonl", std::ios::binary);
        out << "{\"text\": \"zero\"}\n"
            << longest << "\n " << longest << "\n"
            << values << "\n{\"text\": \"three\"}\n x" << longest;
    }
    auto job = job_for(directory, {directory.prefix("in.jsonl")});
    EXPECT_NE(message_of([&] { preprocess(gpt2(), job); }).find("in.jsonl:3: a line of more than 64 MiB"),
              std::string::npos);
    job.on_bad_line = OnBadLine::skip;
    job.workers = 2;
    const PreprocessResult result = preprocess(gpt2(), job);
    EXPECT_EQ(read_independently(directory.prefix("out_text_document")),
              (Documents{gpt2().encode("zero"), gpt2().encode("one"), gpt2().encode("three")}));
    ASSERT_EQ(result.bad_lines, 3);
    EXPECT_NE(result.first_bad_lines[0].find("in.jsonl:3: a line of more than 64 MiB"), std::string::npos);
    EXPECT_NE(
        result.first_bad_lines[1].find("in.jsonl:4: a line of 2 MiB with more than 1000000 JSON values"),
        std::string::npos);
    EXPECT_NE(result.first_bad_lines[2].find("in.jsonl:6: a line of more than 64 MiB"), std::string::npos);
}

TEST(Preprocess, NamesTheFirstBadLine) {
    const TemporaryDirectory directory;
    const std::string good = "{\"text\": \"fine\"}\n\n";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"{\"text\": \"x\"", "not JSON"},
        {"[\"text\"]", "not a JSON object"},
        {"{\"words\": \"x\"}", "no key \"text\""},
        {"{\"text\": 5}", "the value of \"text\" is not a string"},
        {"{\"text\": null}", "the value of \"text\" is not a string"},
        {"{\"text\": \"\xC3\x28\"}", "invalid UTF-8"},
        {"{\"text\": \"\\ud83d\"}", "an unpaired surrogate"},
        {"{\"text\": \"\\ud83d x\"}", "an unpaired surrogate"},
        {"{\"text\": \"\\ude00\"}", "an unpaired surrogate"},
        {"{\"text\": \"\\ud83d\\u0041\"}", "an unpaired surrogate"},
        {"{\"text\": \"\\udc00\\ud800\"}", "an unpaired surrogate"},
        {"{\"text\": \"x\"} {}", "not JSON"},
        {"{\"text\": \"a\tb\"}", "not JSON"},
    };
    for (const int workers : {1, 3})
        for (const auto& [line, reason] : cases) {
            auto job =
                job_for(directory, {directory.write("in.jsonl", good + line + "\n" + good + "{").string()});
            job.workers = workers;
            const std::string message = message_of([&] { preprocess(gpt2(), job); });
            EXPECT_NE(message.find("in.jsonl:3: " + reason), std::string::npos) << line << ": " << message;
            EXPECT_EQ(exit_code_of([&] { preprocess(gpt2(), job); }), 3);
            EXPECT_FALSE(std::filesystem::exists(directory / "out_text_document.idx"));
            job.on_bad_line = OnBadLine::skip;
            const PreprocessResult result = preprocess(gpt2(), job);
            EXPECT_EQ(result.documents, 2);
            EXPECT_EQ(result.bad_lines, 2);
            ASSERT_EQ(result.first_bad_lines.size(), 2u);
            EXPECT_NE(result.first_bad_lines[1].find("in.jsonl:6: not JSON"), std::string::npos);
            std::filesystem::remove(directory / "out_text_document.idx");
        }
    // Escaped backslashes before "ud83d" are text.
    EXPECT_EQ(documents_of(directory, "{\"text\": \"\\\\ud83d\"}"), (Documents{gpt2().encode("\\ud83d")}));
}

TEST(Preprocess, RefusesDamagedCompressionEvenWhenSkipping) {
    const TemporaryDirectory directory;
    std::string lines;
    for (int line = 0; line < 20000; ++line)
        lines += concat("{\"text\": \"line ", line, "\"}\n");
    for (const std::string& packed : {gzip(lines), zstd(lines)}) {
        std::string flipped = packed;
        flipped[packed.size() / 2] = static_cast<char>(flipped[packed.size() / 2] ^ 0x5A);
        for (const std::string& broken :
             {packed.substr(0, packed.size() - 9), packed.substr(0, 12), packed + "more", flipped}) {
            auto job = job_for(directory, {directory.write("in", broken).string()});
            job.on_bad_line = OnBadLine::skip;
            job.workers = 2;
            const std::string message = message_of([&] { preprocess(gpt2(), job); });
            EXPECT_NE(message.find("is damaged"), std::string::npos) << message;
        }
    }
    auto job = job_for(directory, {directory.prefix("missing.jsonl")});
    EXPECT_NE(message_of([&] { preprocess(gpt2(), job); }).find("cannot open"), std::string::npos);
    EXPECT_EQ(exit_code_of([&] { preprocess(gpt2(), job); }), 3);
    job.inputs = {directory.prefix("")};
    EXPECT_NE(message_of([&] { preprocess(gpt2(), job); }).find("is a directory"), std::string::npos);
    job.inputs = {directory.write("in", "{\"text\": \"x\"}").string()};
    job.output_prefix = directory.prefix("no/such/out");
    EXPECT_EQ(exit_code_of([&] { preprocess(gpt2(), job); }), 74);
}

TEST(Preprocess, AVocabularyOf65536TokensFitsU16Exactly) {
    const TemporaryDirectory directory;
    for (const std::int64_t largest : {65535, 65536}) { // the end of a document is this id
        const auto tokenizer = make_null_tokenizer(largest);
        PreprocessOptions options;
        options.inputs = {directory.write("in.jsonl", "{\"text\": \"0 65534\"}\n").string()};
        options.output_prefix = directory.prefix("out");
        options.end_of_document = EndOfDocument::append;
        const std::string prefix = preprocess(*tokenizer, options).prefixes[0];
        EXPECT_EQ(read_independently(prefix), (Documents{{0, 65534, static_cast<std::int32_t>(largest)}}));
        EXPECT_EQ(std::filesystem::file_size(prefix + ".bin"), largest == 65535 ? 6u : 12u);
    }
}

} // namespace
} // namespace trireme::data
