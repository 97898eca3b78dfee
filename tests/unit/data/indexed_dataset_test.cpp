// The .bin/.idx format: what the writer writes is read back by a reader written here from the format's
// description, and every rule that a file can break is a message that names it.
#include "trireme/data/indexed_dataset.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "data_test_support.hpp"
#include "trireme/base/file.hpp"

namespace trireme::data {
namespace {

void write(const std::string& prefix, TokenType type, const Documents& documents) {
    IndexedDatasetWriter writer(prefix, type);
    for (const auto& document : documents)
        writer.add_document(document);
    writer.finish();
}

TEST(IndexedDataset, RoundTripsBothTypes) {
    const TemporaryDirectory directory;
    for (const TokenType type : {TokenType::u16, TokenType::i32}) {
        const Documents documents = {{1, 2, 3}, {}, {65535}, {}, {0, 7}, {}};
        const std::string prefix = directory.prefix("text");
        write(prefix, type, documents); // the second time over the older files
        EXPECT_EQ(read_independently(prefix), documents);
        const IndexedDataset file(prefix);
        EXPECT_EQ(file.type(), type);
        EXPECT_EQ(file.documents(), 6);
        EXPECT_EQ(file.tokens(), 6);
        EXPECT_EQ(file.document_begin(2), 3);
        EXPECT_EQ(file.document_length(1), 0);
        EXPECT_EQ(file.document_begin(6), 6);
        EXPECT_EQ(file.document_at(0), 0);
        EXPECT_EQ(file.document_at(3), 2);
        EXPECT_EQ(file.document_at(5), 4);
        std::vector<std::int32_t> ids(5);
        file.read(1, ids);
        EXPECT_EQ(ids, (std::vector<std::int32_t>{2, 3, 65535, 0, 7}));
        EXPECT_NO_THROW(file.verify());
    }
}

TEST(IndexedDataset, ManyDocumentsAndLargeOnesPassTheBuffers) {
    const TemporaryDirectory directory;
    Documents documents(9000);
    std::int32_t next = 0;
    for (std::size_t index = 0; index < documents.size(); ++index) {
        documents[index].resize(index == 4500 ? 700000 : index % 7);
        for (std::int32_t& id : documents[index])
            id = next++;
    }
    write(directory.prefix("many"), TokenType::i32, documents);
    EXPECT_TRUE(read_independently(directory.prefix("many")) == documents);
}

TEST(IndexedDataset, ADiscardedDocumentLeavesNothing) {
    const TemporaryDirectory directory;
    for (const TokenType type : {TokenType::u16, TokenType::i32}) {
        IndexedDatasetWriter writer(directory.prefix("d"), type);
        const std::vector<std::int32_t> first = {1, 2, 3}, last = {7};
        const std::vector<std::int32_t> long_one(3'000'000, 5); // beyond the buffer of the file
        writer.append(first);
        writer.discard_document();
        writer.add_document(first);
        writer.append(long_one);
        EXPECT_EQ(writer.open_tokens(), 3'000'000);
        writer.discard_document();
        EXPECT_EQ(writer.open_tokens(), 0);
        writer.add_document(last);
        writer.finish();
        EXPECT_EQ(read_independently(directory.prefix("d")), (Documents{first, last}));
        EXPECT_EQ(std::filesystem::file_size(directory / "d.bin"), 4u * (type == TokenType::u16 ? 2 : 4));
    }
}

TEST(IndexedDataset, AppearsCompleteOrNotAtAll) {
    const TemporaryDirectory directory;
    const std::string prefix = directory.prefix("text");
    write(prefix, TokenType::u16, {{1, 2}});
    {
        IndexedDatasetWriter abandoned(prefix, TokenType::u16);
        abandoned.add_document(std::vector<std::int32_t>{3});
    }
    EXPECT_EQ(read_independently(prefix), (Documents{{1, 2}}));
    const auto files = std::filesystem::directory_iterator(directory / "");
    EXPECT_EQ(std::distance(begin(files), end(files)), 2); // no temporary file is left
    EXPECT_EQ(exit_code_of([&] { IndexedDatasetWriter(directory.prefix("no/such/place"), TokenType::u16); }),
              74);
}

TEST(IndexedDataset, NoDocumentsIsAValidFile) {
    const TemporaryDirectory directory;
    write(directory.prefix("none"), TokenType::u16, {});
    const IndexedDataset file(directory.prefix("none"));
    EXPECT_EQ(file.documents(), 0);
    EXPECT_EQ(file.tokens(), 0);
}

// A valid file of two documents with the bytes at `offset` of .idx replaced.
template <class Value>
std::string refusal_after(const TemporaryDirectory& directory, std::size_t offset, Value value) {
    const std::string prefix = directory.prefix("broken");
    write(prefix, TokenType::u16, {{1, 2, 3}, {4, 5}});
    std::string idx = read_file(prefix + ".idx", ErrorCategory::data);
    std::memcpy(idx.data() + offset, &value, sizeof value);
    directory.write("broken.idx", idx);
    return message_of([&] { IndexedDataset(prefix).verify(); });
}

TEST(IndexedDataset, RefusesEveryBrokenRule) {
    const TemporaryDirectory directory;
    const auto expect = [&](const std::string& message, const std::string& part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    constexpr std::size_t kLengths = 34, kOffsets = 42, kBoundaries = 58;
    expect(refusal_after<char>(directory, 0, 'X'), "does not begin with MMIDIDX");
    expect(refusal_after<std::uint64_t>(directory, 9, 2), "version 2");
    expect(refusal_after<std::uint8_t>(directory, 17, 7), "type code 7");
    expect(refusal_after<std::uint8_t>(directory, 17, 4), "cut short: 10 bytes"); // i32 over a file of u16
    expect(refusal_after<std::uint64_t>(directory, 18, 3), "do not fit 3 sequences");
    expect(refusal_after<std::uint64_t>(directory, 18, 0x8000000000000002u),
           "do not fit"); // 12 times it wraps to 24
    expect(refusal_after<std::uint64_t>(directory, 26, 0), "no document boundaries");
    expect(refusal_after<std::uint64_t>(directory, 26, 0x2000000000000003u),
           "do not fit"); // 8 times it wraps to 24
    expect(refusal_after<std::int32_t>(directory, kLengths + 4, -2), "length -2");
    expect(refusal_after<std::int32_t>(directory, kLengths, 2),
           "sequence 1 begins at byte 6, but the ones before it end at 4");
    expect(refusal_after<std::int64_t>(directory, kOffsets, 2), "begins at byte 2");
    expect(refusal_after<std::int64_t>(directory, kOffsets + 8, 5), "describes 9");
    expect(refusal_after<std::int64_t>(directory, kOffsets + 8, INT64_MAX), "offset 9223372036854775807");
    expect(refusal_after<std::int64_t>(directory, kBoundaries, 1), "boundaries run from 1");
    expect(refusal_after<std::int64_t>(directory, kBoundaries + 16, 1), "boundaries run from 0 to 1");
    expect(refusal_after<std::int64_t>(directory, kBoundaries + 8, 3), "before its begin");

    const std::string prefix = directory.prefix("sizes");
    write(prefix, TokenType::u16, {{1, 2, 3}, {4, 5}});
    const std::string idx = read_file(prefix + ".idx", ErrorCategory::data),
                      bin = read_file(prefix + ".bin", ErrorCategory::data);
    const auto open = [&] { IndexedDataset{prefix}; };
    for (std::size_t size = 0; size < idx.size(); ++size) {
        directory.write("sizes.idx", idx.substr(0, size));
        EXPECT_EQ(exit_code_of(open), 3) << size;
    }
    directory.write("sizes.idx", idx + std::string(2, '\0'));
    expect(message_of(open), "multimodal");
    directory.write("sizes.idx", idx);
    directory.write("sizes.bin", bin.substr(0, 9));
    expect(message_of(open), "sizes.bin: cut short: 9 bytes");
    directory.write("sizes.bin", bin + "xy");
    expect(message_of(open), "sizes.bin: grown: 12 bytes");
    std::filesystem::remove(directory / "sizes.bin");
    expect(message_of(open), "sizes.bin does not exist");
    expect(message_of([&] { IndexedDataset(prefix + ".bin"); }), "without its ending");
}

} // namespace
} // namespace trireme::data
