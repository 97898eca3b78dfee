// ranks: 1 2 3 4
// Ramps 0, 1, 2, ... written by one partition and read by another, by one rank alone, and by plain HDF5.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <hdf5.h>
#include <numeric>

#include "support/mpi_test.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::storage {

namespace {

using test::runtime;
using topology::Box;
using topology::Interval;

// A directory that all ranks share for the life of a test.
class SharedDirectory {
  public:
    SharedDirectory() {
        std::string made;
        if (runtime().rank() == 0) {
            std::string pattern =
                (std::filesystem::temp_directory_path() / "trireme-storage-XXXXXX").string();
            made = mkdtemp(pattern.data());
        }
        path_ = runtime().world().broadcast(made, 0);
    }
    ~SharedDirectory() {
        runtime().world().barrier();
        if (runtime().rank() == 0)
            std::filesystem::remove_all(path_);
    }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

// The elements of `box` of a ramp of `shape`.
template <class T>
std::vector<T> ramp(const std::vector<std::int64_t>& shape, const Box& box) {
    std::vector<T> values;
    const std::int64_t columns = shape[1];
    for (std::int64_t i = box.axes[0].begin; i < box.axes[0].end; ++i)
        for (std::int64_t j = box.axes[1].begin; j < box.axes[1].end; ++j) {
            if constexpr (std::is_same_v<T, BFloat16>)
                values.push_back(BFloat16(static_cast<float>((i * columns + j) % 256)));
            else
                values.push_back(static_cast<T>(i * columns + j));
        }
    return values;
}

template <class T>
Part part_of(const Box& box, std::vector<T>& values) {
    return {box, Tensor(std::span<T>(values), Shape{static_cast<std::int64_t>(values.size())})};
}

// Rows of rank r: uneven, and none for the last of three ranks.
Box rows_of(const std::vector<std::int64_t>& shape, int rank, int ranks) {
    const std::vector<std::int64_t> cuts = ranks == 1   ? std::vector<std::int64_t>{0, shape[0]}
                                           : ranks == 2 ? std::vector<std::int64_t>{0, 3, shape[0]}
                                           : ranks == 3 ? std::vector<std::int64_t>{0, 5, shape[0], shape[0]}
                                                        : std::vector<std::int64_t>{0, 1, 4, 9, shape[0]};
    return {
        {{cuts[static_cast<std::size_t>(rank)], cuts[static_cast<std::size_t>(rank) + 1]}, {0, shape[1]}}};
}

Box columns_of(const std::vector<std::int64_t>& shape, int rank, int ranks) {
    return {{{0, shape[0]}, topology::part(shape[1], shape[1], ranks, rank)}};
}

const std::vector<std::int64_t> kShape = {11, 37};

void write_rows(File& file, const std::string& name) {
    const comm::Runtime& r = runtime();
    const Box rows = rows_of(kShape, r.rank(), r.ranks());
    std::vector<double> values = ramp<double>(kShape, rows);
    std::vector<Part> parts;
    if (!rows.empty())
        parts.push_back(part_of(rows, values));
    file.create_dataset(name, kShape, DType::f64);
    file.write(name, parts);
}

TEST(Storage, AnyPartitionReadsWhatAnyPartitionWrote) {
    const SharedDirectory directory;
    comm::Runtime& r = runtime();
    for (const std::int64_t piece_bytes : {std::int64_t{1} << 20, std::int64_t{80}}) {
        File file = File::create(directory / "ramp.h5", r.world());
        file.set_piece_bytes(piece_bytes);
        write_rows(file, "/parameters/layers.0/weight");
        file.close();

        File again = File::open(directory / "ramp.h5", r.world());
        again.set_piece_bytes(piece_bytes);
        const Box columns = columns_of(kShape, r.rank(), r.ranks());
        std::vector<double> values(static_cast<std::size_t>(columns.elements()), -1);
        again.read("/parameters/layers.0/weight", {{part_of(columns, values)}});
        EXPECT_EQ(values, ramp<double>(kShape, columns)) << "pieces of " << piece_bytes;

        // Two boxes, read as fp32.
        const Box above{{{1, 2}, {3, 37}}}, below{{{2, 4}, {0, 37}}};
        std::vector<float> first(34, -1), second(74, -1);
        again.read("/parameters/layers.0/weight", {{part_of(above, first), part_of(below, second)}});
        EXPECT_EQ(first, ramp<float>(kShape, above));
        EXPECT_EQ(second, ramp<float>(kShape, below));
        again.close();
    }
}

// As an independent reader sees it.
TEST(Storage, PlainHdf5ReadsTheSame) {
    const SharedDirectory directory;
    File file = File::create(directory / "ramp.h5", runtime().world());
    write_rows(file, "/a/ramp");
    file.close();
    if (runtime().rank() == 0) {
        const hid_t plain = H5Fopen((directory / "ramp.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
        const hid_t dataset = H5Dopen2(plain, "/a/ramp", H5P_DEFAULT);
        std::vector<double> values(11 * 37, -1), expected(11 * 37);
        std::iota(expected.begin(), expected.end(), 0.0);
        EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
        EXPECT_EQ(values, expected);
        H5Dclose(dataset);
        H5Fclose(plain);
    }
}

template <class T>
void write_and_read_back(File& file, const std::string& name, std::vector<T>& read_back) {
    const Box columns = columns_of(kShape, runtime().rank(), runtime().ranks());
    std::vector<T> values = ramp<T>(kShape, columns);
    read_back.assign(values.size(), T{});
    file.create_dataset(name, kShape, kDTypeOf<T>);
    file.write(name, {{part_of(columns, values)}});
    file.read(name, {{part_of(columns, read_back)}});
    EXPECT_EQ(file.info(name).type, kDTypeOf<T>);
    EXPECT_EQ(file.info(name).shape, kShape);
}

TEST(Storage, EveryElementType) {
    const SharedDirectory directory;
    const Box columns = columns_of(kShape, runtime().rank(), runtime().ranks());
    File file = File::create(directory / "types.h5", runtime().world());
    std::vector<float> f32;
    write_and_read_back(file, "f32", f32);
    EXPECT_EQ(f32, ramp<float>(kShape, columns));
    std::vector<std::int64_t> i64;
    write_and_read_back(file, "i64", i64);
    EXPECT_EQ(i64, ramp<std::int64_t>(kShape, columns));
    std::vector<std::int32_t> i32;
    write_and_read_back(file, "i32", i32);
    EXPECT_EQ(i32, ramp<std::int32_t>(kShape, columns));
    std::vector<BFloat16> bf16;
    write_and_read_back(file, "bf16", bf16);
    const std::vector<BFloat16> expected = ramp<BFloat16>(kShape, columns);
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(bf16[i].bits, expected[i].bits);
    file.close();

    // bf16 is a float that HDF5 understands: 0, 1, ... 255 are exact in it.
    if (runtime().rank() == 0) {
        const hid_t plain = H5Fopen((directory / "types.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
        const hid_t dataset = H5Dopen2(plain, "bf16", H5P_DEFAULT);
        std::vector<double> values(11 * 37, -1);
        EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
        for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], static_cast<double>(i % 256));
        H5Dclose(dataset);
        H5Fclose(plain);
    }
}

TEST(Storage, TextsNumbersAndNames) {
    const SharedDirectory directory;
    const std::string long_text(100'000, 'q'); // longer than an attribute may be
    {
        File file = File::create(directory / "text.h5", runtime().world());
        file.write_text("/run/options", "seed = 1\nname = \"Übung\"\n");
        file.write_text("/run/empty", "");
        file.write_text("/run/long", long_text);
        file.write_integer("/run/iteration", -12'345'678'901);
        EXPECT_EQ(file.read_integer("/run/iteration"), -12'345'678'901);
        file.close();
    }
    File file = File::open(directory / "text.h5", runtime().world());
    EXPECT_EQ(file.read_text("/run/options"), "seed = 1\nname = \"Übung\"\n");
    EXPECT_EQ(file.read_text("/run/empty"), "");
    EXPECT_EQ(file.read_text("/run/long"), long_text);
    EXPECT_EQ(file.read_integer("/run/iteration"), -12'345'678'901);
    EXPECT_EQ(file.names("/run"), (std::vector<std::string>{"empty", "iteration", "long", "options"}));
    EXPECT_TRUE(file.has("/run/empty"));
    EXPECT_FALSE(file.has("/run/absent"));
    EXPECT_FALSE(file.has("/absent/too"));
    file.close();
}

TEST(Storage, OneRankAloneFollowsLinks) {
    const SharedDirectory directory;
    File file = File::create(directory / "stage.h5", runtime().world());
    write_rows(file, "/parameters/x");
    file.close();
    if (runtime().rank() != 0)
        return;
    File index = File::create_alone(directory / "index.h5");
    index.link("/parameters/x", "stage.h5", "/parameters/x");
    index.link("/parameters/lost", "stage.h5", "/parameters/lost");
    index.close();
    File view = File::open_alone(directory / "index.h5");
    EXPECT_EQ(view.names("/parameters"), (std::vector<std::string>{"lost", "x"}));
    EXPECT_TRUE(view.has("/parameters/x"));
    EXPECT_FALSE(view.has("/parameters/lost"));
    EXPECT_EQ(view.link_target("/parameters/lost"), (File::LinkTarget{"stage.h5", "/parameters/lost"}));
    EXPECT_THROW(view.link_target("/parameters"), Error);
    EXPECT_THROW(view.link_target("/parameters/absent"), Error);
    std::vector<double> values(3, -1);
    view.read("/parameters/x", {{part_of(Box{{{2, 3}, {5, 8}}}, values)}});
    EXPECT_EQ(values, (std::vector<double>{79, 80, 81}));
}

// What `work` throws on each rank: it must be the same everywhere.
template <class Work>
Error error_of(Work work) {
    try {
        work();
    } catch (const Error& error) {
        const std::string text = error.message();
        for (const std::string& other : runtime().world().all_gather(text))
            EXPECT_EQ(other, text);
        return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(ErrorCategory::internal, "nothing was thrown");
}

TEST(Storage, FailuresAreTheSameOnAllRanks) {
    const SharedDirectory directory;
    comm::Runtime& r = runtime();
    const Error absent = error_of([&] { File::open(directory / "absent.h5", r.world()); });
    EXPECT_EQ(absent.exit_code(), 4);
    EXPECT_NE(std::string(absent.what()).find("absent.h5"), std::string::npos);

    if (r.rank() == 0)
        std::ofstream(directory / "text") << "not HDF5 at all";
    r.world().barrier();
    EXPECT_EQ(error_of([&] { File::open(directory / "text", r.world()); }).exit_code(), 4);
    EXPECT_EQ(error_of([&] { File::create(directory / "no/such/directory.h5", r.world()); }).exit_code(), 74);

    File file = File::create(directory / "ramp.h5", r.world());
    write_rows(file, "/x");
    EXPECT_NE(std::string(error_of([&] { file.info("/y"); }).what()).find("ramp.h5 has no /y"),
              std::string::npos);
    EXPECT_EQ(error_of([&] { file.create_dataset("/x", kShape, DType::f64); }).exit_code(), 74);
    // A wrong box on the last rank alone.
    std::vector<double> values(37);
    const std::int64_t row = r.rank() == r.ranks() - 1 ? 11 : 0;
    EXPECT_EQ(error_of([&] {
                  file.read("/x", {{part_of(Box{{{row, row + 1}, {0, 37}}}, values)}});
              }).exit_code(),
              1);
    std::vector<std::int32_t> integers(37);
    EXPECT_EQ(error_of([&] {
                  file.write("/x", {{part_of(Box{{{0, 1}, {0, 37}}}, integers)}});
              }).exit_code(),
              1);
    file.close();
}

} // namespace

} // namespace trireme::storage
