// Splits, samples and their errors on ramps: token = position in the file, so that every sample can be
// computed here.
#include "trireme/data/dataset.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "data_test_support.hpp"
#include "trireme/data/loader.hpp"

namespace trireme::data {
namespace {

// Documents of the given lengths whose tokens count up through the whole file.
void write_ramp(const std::string& prefix, const std::vector<int>& lengths) {
    IndexedDatasetWriter writer(prefix, TokenType::i32);
    std::int32_t next = 0;
    for (const int length : lengths) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
        std::iota(ids.begin(), ids.end(), next);
        next += length;
        writer.add_document(ids);
    }
    writer.finish();
}

TEST(Split, ReadsSharesStrictly) {
    EXPECT_EQ(parse_split("3,1,0"), (std::array<double, 3>{0.75, 0.25, 0}));
    EXPECT_EQ(parse_split("1"), (std::array<double, 3>{1, 0, 0}));
    EXPECT_EQ(parse_split(" 0.5 , 0.5"), (std::array<double, 3>{0.5, 0.5, 0}));
    for (const char* wrong : {"", "98,2,0,1", "98;2", "98,two", "98,,2", "98,2,", "-1,2", "0,0,0", "nan",
                              "inf,1", "0x10,1", "1e400", "98 2", "+1"})
        EXPECT_EQ(exit_code_of([&] { parse_split(wrong); }), 2) << wrong;
    EXPECT_NE(message_of([] { parse_split("98,two"); }).find("\"two\""), std::string::npos);
}

TEST(Split, CutsDocumentsAtRoundedCumulativeShares) {
    using Bounds = std::array<std::int64_t, 4>;
    EXPECT_EQ(split_documents(parse_split("98,2,0"), 120), (Bounds{0, 118, 120, 120}));
    EXPECT_EQ(split_documents(parse_split("969,30,1"), 1000), (Bounds{0, 969, 999, 1000}));
    EXPECT_EQ(split_documents(parse_split("1,1,1"), 3), (Bounds{0, 1, 2, 3}));
    EXPECT_EQ(split_documents(parse_split("0,0,1"), 5), (Bounds{0, 0, 0, 5}));
    EXPECT_EQ(split_documents(parse_split("0.1,0.9"), 7), (Bounds{0, 1, 7, 7}));
    EXPECT_EQ(split_documents(parse_split("1"), 1), (Bounds{0, 1, 1, 1}));
}

TEST(Dataset, EverySampleIsAWindowOfItsRing) {
    const TemporaryDirectory directory;
    std::vector<int> lengths;
    for (int index = 0; index < 40; ++index)
        lengths.push_back((index * 7) % 13);
    write_ramp(directory.prefix("ramp"), lengths);
    constexpr std::int64_t kLength = 5;
    const Dataset dataset({{directory.prefix("ramp")}, "75,20,5", kLength, 42, 1000});
    const std::array<std::int64_t, 4> documents = {0, 30, 38, 40};
    for (const Split split : kSplits) {
        const std::size_t part = static_cast<std::size_t>(split);
        std::int64_t first = 0, tokens = 0;
        for (std::int64_t document = 0; document < documents[part + 1]; ++document)
            (document < documents[part] ? first : tokens) += lengths[static_cast<std::size_t>(document)];
        const std::int64_t windows = (tokens - 1) / kLength;
        ASSERT_GT(windows, 0);
        const SplitInfo info = dataset.info(split);
        EXPECT_EQ(info.documents, documents[part + 1] - documents[part]);
        EXPECT_EQ(info.tokens, tokens);
        EXPECT_EQ(info.samples_per_epoch, windows);
        for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
            std::vector<int> times_an_input(static_cast<std::size_t>(tokens), 0);
            for (std::int64_t index = 0; index < windows; ++index) {
                std::vector<std::int32_t> sample(kLength + 1);
                dataset.read(split, epoch * windows + index, sample);
                for (std::size_t token = 0; token <= kLength; ++token) {
                    ASSERT_EQ(sample[token],
                              first + (sample[0] - first + static_cast<std::int64_t>(token)) % tokens);
                    if (token < kLength)
                        ++times_an_input[static_cast<std::size_t>(sample[token] - first)];
                }
            }
            // Each token is an input at most once an epoch, and all but the rest of the division are.
            EXPECT_EQ(*std::max_element(times_an_input.begin(), times_an_input.end()), 1);
            EXPECT_EQ(std::accumulate(times_an_input.begin(), times_an_input.end(), std::int64_t{0}),
                      windows * kLength);
        }
    }
}

TEST(Dataset, OrderIsAFunctionOfSeedAndSplit) {
    const TemporaryDirectory directory;
    write_ramp(directory.prefix("ramp"), std::vector<int>(100, 10));
    const auto order = [&](std::uint64_t seed, Split split) {
        const Dataset dataset({{directory.prefix("ramp")}, "1,1,0", 9, seed, 1000});
        std::vector<std::int32_t> first_tokens, sample(10);
        for (std::int64_t index = 0; index < dataset.info(split).samples_per_epoch; ++index) {
            dataset.read(split, index, sample);
            first_tokens.push_back(sample[0] % 500);
        }
        return first_tokens;
    };
    EXPECT_EQ(order(1, Split::train), order(1, Split::train));
    EXPECT_NE(order(1, Split::train), order(2, Split::train));
    EXPECT_NE(order(1, Split::train), order(1, Split::valid));
}

// Which file a sample came from: the ramps of these begin at 0, 10000 and 20000.
void write_three_ramps(const TemporaryDirectory& directory) {
    for (int file = 0; file < 3; ++file) {
        IndexedDatasetWriter writer(directory.prefix(concat("part", file)), TokenType::i32);
        for (int document = 0; document < 20 * (file + 1); ++document) {
            std::vector<std::int32_t> ids(9);
            std::iota(ids.begin(), ids.end(), 10000 * file + 9 * document);
            writer.add_document(ids);
        }
        writer.finish();
    }
}

TEST(Dataset, ABlendDrawsEachMembersOwnOrderByItsShare) {
    const TemporaryDirectory directory;
    write_three_ramps(directory);
    const std::string a = directory.prefix("part0"), b = directory.prefix("part1"),
                      c = directory.prefix("part2");
    const Dataset blend({{"0.5", a, "0.3", b, "0.2", c}, "1,1,0", 4, 7, 30000});
    const SplitInfo info = blend.info(Split::train);
    ASSERT_EQ(info.members.size(), 3u);
    EXPECT_EQ(info.members[1].prefix, b);
    EXPECT_EQ(info.members[0].units, 1 << 19);
    EXPECT_EQ(info.members[1].units, 314573); // 0.3 x 2^20 = 314572.8
    EXPECT_EQ(info.members[0].tokens, 90);
    EXPECT_EQ(info.members[0].samples_per_epoch, 89 / 4);
    EXPECT_EQ(info.documents, 10 + 20 + 30);
    std::vector<std::vector<std::int32_t>> first_token(3);
    std::vector<std::int32_t> sample(5);
    for (std::int64_t number = 0; number < 500; ++number) {
        blend.read(Split::train, number, sample);
        first_token[static_cast<std::size_t>(sample[0] / 10000)].push_back(sample[0]);
        for (std::size_t member = 0; member < 3; ++member)
            ASSERT_LE(std::abs(static_cast<double>(first_token[member].size()) -
                               std::array{0.5, 0.3, 0.2}[member] * static_cast<double>(number + 1)),
                      1.0);
    }
    // The first member's samples are those that it gives alone; epochs and their ends included.
    const Dataset alone({{a}, "1,1,0", 4, 7, 30000});
    for (std::size_t number = 0; number < first_token[0].size(); ++number) {
        alone.read(Split::train, static_cast<std::int64_t>(number), sample);
        ASSERT_EQ(first_token[0][number], sample[0]) << number;
    }
    // An epoch of any member visits every window once.
    const auto epoch = static_cast<std::ptrdiff_t>(info.members[1].samples_per_epoch);
    std::vector<std::int32_t> visited(first_token[1].begin(), first_token[1].begin() + epoch);
    std::sort(visited.begin(), visited.end());
    for (std::size_t window = 1; window < visited.size(); ++window)
        EXPECT_EQ(visited[window] - visited[window - 1], 4);
}

// A run that stops after any number of samples, also at the end of an epoch, goes on with exactly the next
// ones on other ranks, with other micro-batches and workers.
TEST(Dataset, AResumedRunReadsExactlyTheNextSamples) {
    const TemporaryDirectory directory;
    write_three_ramps(directory);
    const Dataset blend({{"0.5", directory.prefix("part0"), "0.3", directory.prefix("part1"), "0.2",
                          directory.prefix("part2")},
                         "1,1,0",
                         4,
                         7,
                         30000,
                         {}});
    const auto samples = [&](std::int64_t first, std::int64_t count, std::int64_t ranks,
                             std::int64_t micro_batch, int workers) {
        std::vector<std::unique_ptr<Loader>> loaders;
        for (std::int64_t rank = 0; rank < ranks; ++rank)
            loaders.push_back(std::make_unique<Loader>(
                [&](std::int64_t sample, std::span<std::int32_t> row) {
                    blend.read(Split::train, sample, row);
                },
                LoaderOptions{first, micro_batch, rank, ranks, 4, workers, 0}));
        std::vector<std::int32_t> tokens;
        while (static_cast<std::int64_t>(tokens.size()) < count * 5)
            for (auto& loader : loaders)
                for (const std::int32_t token : loader->next())
                    tokens.push_back(token);
        return tokens;
    };
    const std::vector<std::int32_t> whole = samples(0, 192, 1, 1, 0);
    const std::int64_t epoch = blend.info(Split::train).members[0].samples_per_epoch; // the first member's
    for (const std::int64_t stop : {std::int64_t{8}, std::int64_t{64}, 2 * epoch, 2 * epoch + 1})
        for (const std::int64_t ranks : {1, 2, 4})
            for (const std::int64_t micro_batch : {1, 3}) {
                const std::vector<std::int32_t> rest = samples(stop, 96, ranks, micro_batch, 2);
                ASSERT_TRUE(std::equal(rest.begin(), rest.begin() + 96 * 5, whole.begin() + stop * 5))
                    << "stop " << stop << ", " << ranks << " ranks, micro-batch " << micro_batch;
            }
}

TEST(Dataset, WithoutWeightsAnEpochIsOneOfEachMember) {
    const TemporaryDirectory directory;
    write_three_ramps(directory);
    const Dataset blend({{directory.prefix("part0"), directory.prefix("part1"), directory.prefix("part2")},
                         "1",
                         4,
                         7,
                         30000});
    const SplitInfo info = blend.info(Split::train);
    std::vector<std::int64_t> drawn(3, 0);
    std::vector<std::int32_t> sample(5);
    for (std::int64_t number = 0; number < info.samples_per_epoch; ++number) {
        blend.read(Split::train, number, sample);
        ++drawn[static_cast<std::size_t>(sample[0] / 10000)];
    }
    for (std::size_t member = 0; member < 3; ++member)
        EXPECT_LE(std::abs(drawn[member] - info.members[member].samples_per_epoch), 1);
}

TEST(Dataset, EachPartMayHaveFilesOfItsOwn) {
    const TemporaryDirectory directory;
    write_three_ramps(directory);
    DatasetOptions options;
    options.sequence_length = 4;
    options.vocab_size = 30000;
    options.part_paths = {
        {{"1", directory.prefix("part0"), "3", directory.prefix("part2")}, {directory.prefix("part1")}, {}}};
    const Dataset dataset(options);
    EXPECT_TRUE(dataset.has(Split::valid));
    EXPECT_FALSE(dataset.has(Split::test));
    EXPECT_EQ(dataset.info(Split::train).members[1].units, 3 << 18);
    EXPECT_EQ(dataset.info(Split::valid).documents, 40);
    options.sequence_length = 200;
    const Dataset small(options);
    EXPECT_NE(message_of([&] { small.info(Split::train); }).find("part0 (train) has 180 tokens"),
              std::string::npos);
    EXPECT_NE(message_of([&] { small.info(Split::train); }).find("--train-data-path"), std::string::npos);
}

TEST(Dataset, NamesWhatIsWrong) {
    const TemporaryDirectory directory;
    write_ramp(directory.prefix("ramp"), {5, 5, 5, 5});
    const auto expect = [](const std::string& message, const std::string& part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    const Dataset dataset({{directory.prefix("ramp")}, "98,2,0", 8, 1, 1000});
    EXPECT_TRUE(dataset.has(Split::valid));
    EXPECT_FALSE(dataset.has(Split::test));
    expect(message_of([&] { dataset.info(Split::valid); }),
           "ramp (valid) has no documents\n  --split 98,2,0 gives it 0 of 4 documents");
    const Dataset small({{directory.prefix("ramp")}, "1,1,0", 10, 1, 1000});
    expect(message_of([&] { small.info(Split::valid); }), "ramp (valid) has 10 tokens: one sample takes 11");
    EXPECT_EQ(exit_code_of([&] { small.info(Split::valid); }), 3);

    const Dataset narrow({{directory.prefix("ramp")}, "1", 19, 1, 12});
    std::vector<std::int32_t> sample(20);
    expect(message_of([&] { narrow.read(Split::train, 0, sample); }),
           "is outside the vocabulary of 12 tokens");
    EXPECT_EQ(exit_code_of([&] { narrow.read(Split::train, 0, sample); }), 3);

    write_ramp(directory.prefix("empty"), {0, 0});
    expect(message_of([&] {
               Dataset({{directory.prefix("empty")}, "1", 4, 1, 10});
           }),
           "empty: 2 documents, 0 tokens");
    expect(message_of([&] {
               Dataset({{directory.prefix("none")}, "1", 4, 1, 10});
           }),
           "none.idx does not exist");
    expect(message_of([&] { Dataset({{}, "1", 4, 1, 10}); }), "--data-path is missing");
    EXPECT_EQ(exit_code_of([&] { Dataset({{directory.prefix("ramp")}, "1,x", 4, 1, 10}); }), 2);
}

TEST(Dataset, NamesDocumentAndPositionOfAWrongId) {
    const TemporaryDirectory directory;
    {
        IndexedDatasetWriter writer(directory.prefix("bad"), TokenType::u16);
        writer.add_document(std::vector<std::int32_t>{1, 2, 3});
        writer.add_document(std::vector<std::int32_t>{4, 99, 5});
        writer.finish();
    }
    const Dataset dataset({{directory.prefix("bad")}, "1", 5, 1, 50});
    std::vector<std::int32_t> sample(6);
    const std::string message = message_of([&] { dataset.read(Split::train, 0, sample); });
    EXPECT_NE(message.find("token id 99"), std::string::npos) << message;
    EXPECT_NE(message.find("document 1, its token 1 (token 4 of the file)"), std::string::npos) << message;
}

} // namespace
} // namespace trireme::data
