// Writing a stage file: what lies there is what was given, whatever the pieces, and a change behind the
// writer's back is found when it reads again.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <numeric>
#include <unistd.h>

#include "checkpoint/stage_writer.hpp"
#include "support.hpp"

namespace trireme::checkpoint {
namespace {

using topology::Box;

constexpr std::int64_t kRows = 300, kColumns = 1000; // more than is hashed at a time

class StageWriting : public testing::Test {
  protected:
    StageWriting() : values_(static_cast<std::size_t>(kRows * kColumns)) {
        std::iota(values_.begin(), values_.end(), 0.25f);
        contents_.tensors = {{"first", 0, {kRows, kColumns}}, {"second", 0, {kRows, kColumns}}};
        contents_.groups = {{"/parameters/", DType::f32}};
        places_ = lay_out_stage(path(), contents_, 0, *alone_);
    }
    std::filesystem::path path() const { return scratch_.path() / "stage_000.h5"; }

    // "second" whole, then "first" in two halves of its columns, whose runs are short.
    StageWriter write() {
        StageWriter writer(path(), contents_, places_);
        writer.write(1, Box{{{0, kRows}, {0, kColumns}}}, std::as_bytes(std::span(values_)));
        for (const topology::Interval columns :
             {topology::Interval{0, kColumns / 4}, topology::Interval{kColumns / 4, kColumns}}) {
            std::vector<float> half;
            for (std::int64_t row = 0; row < kRows; ++row)
                for (std::int64_t column = columns.begin; column < columns.end; ++column)
                    half.push_back(values_[static_cast<std::size_t>(row * kColumns + column)]);
            writer.write(0, Box{{{0, kRows}, columns}}, std::as_bytes(std::span(half)));
        }
        return writer;
    }
    void flip_a_bit(std::size_t slot, std::int64_t element) const {
        const int file = ::open(path().c_str(), O_RDWR);
        const off_t at = places_[slot]->offset + element * 4;
        char byte = 0;
        ASSERT_EQ(::pread(file, &byte, 1, at), 1);
        byte = static_cast<char>(byte ^ 4);
        ASSERT_EQ(::pwrite(file, &byte, 1, at), 1);
        ::close(file);
    }

    test::ScratchDirectory scratch_;
    std::unique_ptr<comm::HostGroup> alone_ = comm::make_self_host_group();
    Contents contents_;
    Places places_;
    std::vector<float> values_;
};

TEST_F(StageWriting, EachElementIsAtItsPlaceAndInTheSums) {
    StageWriter writer = write();
    writer.finish(ReadBack::yes, 2);
    SumTable expected = contents_.empty_sums();
    storage::File file = storage::File::open_alone(path());
    for (std::size_t slot = 0; slot < 2; ++slot) {
        expected.add(slot, Box::whole(contents_.tensors[slot].shape), std::as_bytes(std::span(values_)),
                     DType::f32);
        std::vector<float> read(values_.size());
        const storage::Part part{Box::whole(contents_.tensors[slot].shape),
                                 Tensor(std::span(read), Shape{kRows, kColumns})};
        file.read(contents_.dataset(slot), {&part, 1});
        EXPECT_TRUE(read == values_) << contents_.dataset(slot);
    }
    EXPECT_TRUE(differences(writer.sums(), expected).empty());
    EXPECT_EQ(writer.sums().elements(0, 0), kRows * kColumns);
}

TEST_F(StageWriting, AChangedBitIsFoundByAnyNumberOfThreads) {
    for (const std::size_t threads : {1, 2, 5}) {
        StageWriter untouched = write();
        EXPECT_NO_THROW(untouched.finish(ReadBack::yes, threads)) << threads;
        for (const std::size_t slot : {0, 1}) {
            StageWriter writer = write();
            flip_a_bit(slot, kRows * kColumns - 1);
            try {
                writer.finish(ReadBack::yes, threads);
                ADD_FAILURE() << "nothing was found by " << threads << " threads";
            } catch (const Error& error) {
                EXPECT_EQ(error.category(), ErrorCategory::output);
                EXPECT_NE(std::string(error.what()).find("not what is read: " + contents_.dataset(slot)),
                          std::string::npos)
                    << error.what();
            }
        }
    }
    StageWriter unread = write();
    flip_a_bit(0, 0);
    EXPECT_NO_THROW(unread.finish(ReadBack::no, 2));
}

TEST(Place, ItsExtentIsFromTheFirstByteOfABoxToTheLast) {
    const storage::Place place{100, {5, 4, 3}, DType::f32};
    EXPECT_EQ(place.extent(Box::whole(place.shape)), (topology::Interval{100, 340}));
    EXPECT_EQ(place.extent(Box{{{1, 3}, {0, 4}, {0, 3}}}), (topology::Interval{148, 244}));
    // Elements (1, 2, 1) = 19 to (2, 3, 2) = 35 - 1, with others between them.
    EXPECT_EQ(place.extent(Box{{{1, 3}, {2, 4}, {1, 2}}}), (topology::Interval{100 + 19 * 4, 100 + 35 * 4}));
    EXPECT_TRUE(place.extent(Box{{{1, 1}, {0, 4}, {0, 3}}}).empty());
}

} // namespace
} // namespace trireme::checkpoint
