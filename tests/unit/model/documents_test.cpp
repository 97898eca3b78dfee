// Marks of documents against the example of the header and against counting ends.
#include <gtest/gtest.h>
#include <vector>

#include "trireme/model/documents.hpp"

namespace trireme::model {
namespace {

using Integers = std::vector<std::int32_t>;

template <class T>
std::vector<T> list(const Tensor& tensor) {
    const std::span<T> values = tensor.values<T>();
    return {values.begin(), values.end()};
}

MicroBatch batch_of(Integers& tokens, std::int64_t rows) {
    MicroBatch batch;
    batch.tokens = Tensor(std::span(tokens), Shape{static_cast<std::int64_t>(tokens.size()) / rows, rows});
    return batch;
}

TEST(DocumentMarks, OfTheExample) {
    Integers tokens{5, 6, 9, 7, 9, 9, 8};
    MicroBatch batch = batch_of(tokens, 1);
    DocumentMarks marks({true, true, true, 9}, 7, 1, DType::f64);
    marks.mark(batch);
    EXPECT_EQ(list<std::int32_t>(batch.documents), (Integers{0, 0, 0, 3, 3, 5, 6}));
    EXPECT_EQ(list<std::int32_t>(batch.positions), (Integers{0, 1, 2, 0, 1, 0, 0}));
    EXPECT_EQ(list<double>(batch.loss_mask), (std::vector<double>{1, 1, 0, 1, 0, 0, 1}));
    EXPECT_EQ(batch.masked_tokens, 3);
    EXPECT_EQ(marks.ends_seen(), 3);
}

// Rows lie side by side, [T, B], and know nothing of each other; an end at the end of one begins nothing.
TEST(DocumentMarks, OfTwoRows) {
    Integers tokens{9, 1, /**/ 2, 9, /**/ 3, 4, /**/ 4, 9}; // 9 2 3 4 and 1 9 4 9
    MicroBatch batch = batch_of(tokens, 2);
    DocumentMarks marks({true, true, true, 9}, 4, 2, DType::f32);
    marks.mark(batch);
    EXPECT_EQ(list<std::int32_t>(batch.documents), (Integers{0, 0, 1, 0, 1, 2, 1, 2}));
    EXPECT_EQ(list<std::int32_t>(batch.positions), (Integers{0, 0, 0, 1, 1, 0, 2, 1}));
    EXPECT_EQ(list<float>(batch.loss_mask), (std::vector<float>{0, 1, 1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(batch.masked_tokens, 3);
    marks.mark(batch); // nothing is left over from the first time
    EXPECT_EQ(batch.masked_tokens, 3);
    EXPECT_EQ(marks.ends_seen(), 6);
}

TEST(DocumentMarks, OnlyWhatIsWanted) {
    Integers tokens{9, 1, 9, 2};
    MicroBatch batch = batch_of(tokens, 1);
    DocumentMarks({}, 4, 1, DType::f32).mark(batch);
    EXPECT_FALSE(batch.documents.defined() || batch.positions.defined() || batch.loss_mask.defined());
    DocumentMarks positions({.restarts_positions = true, .end = 9}, 4, 1, DType::f32);
    positions.mark(batch);
    EXPECT_EQ(list<std::int32_t>(batch.positions), (Integers{0, 0, 1, 0}));
    EXPECT_FALSE(batch.documents.defined() || batch.loss_mask.defined());
    EXPECT_EQ(batch.masked_tokens, 0);
    EXPECT_EQ(positions.ends_seen(), 2);
}

} // namespace
} // namespace trireme::model
