// Merging, shuffling and verifying token files, against documents kept in memory; files beyond 2^31 bytes.
#include "trireme/data/copy_documents.hpp"

#include <algorithm>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <numeric>
#include <unistd.h>

#include "data_test_support.hpp"
#include "trireme/data/dataset.hpp"

namespace trireme::data {
namespace {

// Documents of lengths 0 to 6 whose tokens count up from `first`.
Documents make_documents(int count, std::int32_t first) {
    Documents documents;
    for (int index = 0; index < count; ++index) {
        documents.emplace_back(static_cast<std::size_t>(index * 5 % 7));
        std::iota(documents.back().begin(), documents.back().end(), first);
        first += static_cast<std::int32_t>(documents.back().size());
    }
    return documents;
}

void write(const std::string& prefix, TokenType type, const Documents& documents) {
    IndexedDatasetWriter writer(prefix, type);
    for (const std::vector<std::int32_t>& document : documents)
        writer.add_document(document);
    writer.finish();
}

int type_code(const std::string& prefix) {
    return static_cast<unsigned char>(read_file(prefix + ".idx", ErrorCategory::data)[17]);
}

TEST(MergeDocuments, KeepsTheOrderAndTheNarrowestType) {
    const TemporaryDirectory directory;
    const std::string a = directory.prefix("a"), b = directory.prefix("b"), wide = directory.prefix("wide"),
                      empty = directory.prefix("empty"), out = directory.prefix("out");
    const Documents first = make_documents(20, 0), second = make_documents(9, 500),
                    third = make_documents(5, 70000);
    write(a, TokenType::u16, first);
    write(b, TokenType::u16, second);
    write(wide, TokenType::i32, third);
    write(empty, TokenType::u16, {});
    const auto joined = [](Documents left, const Documents& right) {
        left.insert(left.end(), right.begin(), right.end());
        return left;
    };
    merge_documents(std::vector{a, empty, b}, out);
    EXPECT_EQ(read_independently(out), joined(first, second));
    EXPECT_EQ(type_code(out), 8);
    merge_documents(std::vector{wide, a}, out);
    EXPECT_EQ(read_independently(out), joined(third, first));
    EXPECT_EQ(type_code(out), 4);
    EXPECT_NE(message_of([&] {
                  merge_documents(std::vector{a, directory.prefix("none")}, out);
              }).find("none.idx does not exist"),
              std::string::npos);
    EXPECT_EQ(read_independently(out), joined(third, first)) << "a failed merge leaves what was there";
}

TEST(ShuffleDocuments, IsAPermutationOfWholeDocuments) {
    const TemporaryDirectory directory;
    const Documents documents = make_documents(200, 0);
    write(directory.prefix("in"), TokenType::u16, documents);
    const auto shuffled = [&](std::uint64_t seed) {
        shuffle_documents(IndexedDataset(directory.prefix("in")), directory.prefix("out"), seed);
        return read_independently(directory.prefix("out"));
    };
    const Documents once = shuffled(1);
    EXPECT_TRUE(std::is_permutation(once.begin(), once.end(), documents.begin(), documents.end()));
    EXPECT_NE(once, documents);
    EXPECT_EQ(shuffled(1), once);
    EXPECT_NE(shuffled(2), once);
    write(directory.prefix("in"), TokenType::u16, {});
    EXPECT_TRUE(shuffled(1).empty());
}

TEST(VerifyIds, NamesTheFirstIdOutside) {
    const TemporaryDirectory directory;
    write(directory.prefix("x"), TokenType::i32, {{5, 6}, {}, {7, 300, 8, -1}});
    const IndexedDataset file(directory.prefix("x"));
    EXPECT_NE(message_of([&] { verify_ids(file, 300); }).find("token id 300 of document 2, its token 1,"),
              std::string::npos);
    EXPECT_NE(message_of([&] { verify_ids(file, 301); }).find("token id -1 of document 2, its token 3,"),
              std::string::npos);
    write(directory.prefix("y"), TokenType::u16, {{5, 6}, {7, 65535}});
    const IdRange range = verify_ids(IndexedDataset(directory.prefix("y")), 65536);
    EXPECT_EQ(range.smallest, 5);
    EXPECT_EQ(range.largest, 65535);
    EXPECT_EQ(exit_code_of([&] { verify_ids(IndexedDataset(directory.prefix("y")), 65535); }), 3);
}

// 4.8 GB of two documents, all of it a hole but a few tokens around the boundaries at 2^31 and 2^32 bytes.
TEST(IndexedDataset, ReadsBeyondTwoToTheThirtyOneBytes) {
    const TemporaryDirectory directory;
    const std::string prefix = directory.prefix("large");
    constexpr std::int64_t kLength = 1'200'000'000;
    std::string idx("MMIDIDX\0\0", 9);
    const auto add = [&](auto value) { idx.append(reinterpret_cast<const char*>(&value), sizeof value); };
    add(std::uint64_t{1});
    add(std::uint8_t{8});
    add(std::uint64_t{2});
    add(std::uint64_t{3});
    for (int document = 0; document < 2; ++document)
        add(static_cast<std::int32_t>(kLength));
    for (const std::int64_t offset :
         {std::int64_t{0}, 2 * kLength, std::int64_t{0}, std::int64_t{1}, std::int64_t{2}})
        add(offset);
    directory.write("large.idx", idx);
    directory.write("large.bin", "");
    const std::string bin = prefix + ".bin";
    if (::truncate(bin.c_str(), 4 * kLength) != 0)
        GTEST_SKIP() << "no sparse file of 4.8 GB can be made here";
    const int file_descriptor = ::open(bin.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(file_descriptor, 0);
    const auto put = [&](std::int64_t token, std::uint16_t id) {
        ASSERT_EQ(::pwrite(file_descriptor, &id, sizeof id, 2 * token), 2);
    };
    constexpr std::int64_t kHalf = std::int64_t{1} << 30; // its byte is 2^31
    put(kHalf - 1, 11);
    put(kHalf, 12);
    put(2 * kHalf, 13);
    put(2 * kLength - 1, 14);
    ::close(file_descriptor);

    const IndexedDataset file(prefix);
    file.verify();
    EXPECT_EQ(file.tokens(), 2 * kLength);
    std::vector<std::int32_t> ids(2);
    file.read(kHalf - 1, ids);
    EXPECT_EQ(ids, (std::vector<std::int32_t>{11, 12}));
    file.read(2 * kHalf, ids);
    EXPECT_EQ(ids[0], 13);
    file.read(2 * kLength - 2, ids);
    EXPECT_EQ(ids[1], 14);
    EXPECT_EQ(file.document_at(2 * kHalf), 1);
    // 2^31 tokens and more in one ring.
    const Dataset dataset({{prefix}, "1", 1'000'000'000, 3, 100});
    EXPECT_EQ(dataset.info(Split::train).samples_per_epoch, 2);
}

TEST(IndexedDatasetWriter, TakesADocumentInPieces) {
    const TemporaryDirectory directory;
    IndexedDatasetWriter writer(directory.prefix("x"), TokenType::u16);
    writer.append(std::vector<std::int32_t>{1, 2});
    writer.append(std::vector<std::int32_t>{3});
    writer.end_document();
    writer.end_document();
    writer.finish();
    EXPECT_EQ(read_independently(directory.prefix("x")), (Documents{{1, 2, 3}, {}}));
}

} // namespace
} // namespace trireme::data
