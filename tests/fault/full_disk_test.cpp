// ranks: 1 2 4
// A disk that fills up while a file is written: an Error of category output, the same on all ranks, whoever's
// part did not fit, and no hang. On a small tmpfs, so as root only.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sys/mount.h>
#include <unistd.h>

#include "support/mpi_test.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::storage {

namespace {

using test::runtime;
using topology::Box;

// A tmpfs of 8 MiB for all ranks of this node, unmounted lazily so that files still open do no harm.
class SmallDisk {
  public:
    SmallDisk() {
        std::string made;
        if (runtime().rank() == 0) {
            std::string pattern = (std::filesystem::temp_directory_path() / "trireme-full-XXXXXX").string();
            directory_ = mkdtemp(pattern.data());
            if (mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=8m") == 0)
                made = directory_.string();
        }
        path_ = runtime().world().broadcast(made, 0);
    }
    ~SmallDisk() {
        runtime().world().barrier();
        if (runtime().rank() == 0) {
            if (mounted())
                umount2(path_.c_str(), MNT_DETACH);
            std::filesystem::remove(directory_);
        }
    }
    bool mounted() const { return !path_.empty(); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path directory_, path_;
};

// `rows` of 1 MiB each, shared evenly by the ranks.
void save(const std::filesystem::path& path, std::int64_t rows) {
    comm::Runtime& r = runtime();
    constexpr std::int64_t kColumns = 1 << 17;
    const topology::Interval own = topology::part(rows, rows, r.ranks(), r.rank());
    std::vector<double> values(static_cast<std::size_t>(own.size() * kColumns), 1.0);
    File file = File::create(path, r.world());
    file.create_dataset("x", std::vector<std::int64_t>{rows, kColumns}, DType::f64);
    const Part part{Box{{own, {0, kColumns}}},
                    Tensor(std::span<double>(values), Shape{own.size(), kColumns})};
    file.write("x", {&part, own.empty() ? std::size_t{0} : std::size_t{1}});
    file.close();
}

TEST(FullDisk, IsAnErrorOnAllRanksAlike) {
    comm::Runtime& r = runtime();
    const SmallDisk disk;
    if (!disk.mounted())
        GTEST_SKIP() << "needs root: to mount a small tmpfs";
    save(disk.path() / "fits.h5", 4);
    std::string text;
    try {
        save(disk.path() / "too-large.h5", 16);
    } catch (const Error& error) {
        text = error.message();
        EXPECT_EQ(error.exit_code(), 74) << text;
        EXPECT_NE(text.find("too-large.h5"), std::string::npos) << text;
        EXPECT_NE(text.find("try: free space"), std::string::npos) << text;
        EXPECT_EQ(error.agreement().ranks, r.ranks());
    }
    EXPECT_NE(text, "") << "nothing was thrown";
    for (const std::string& other : r.world().all_gather(text))
        EXPECT_EQ(other, text);

    // What was complete before stays readable.
    File file = File::open(disk.path() / "fits.h5", r.world());
    double last = 0;
    file.read("x", {{Part{Box{{{3, 4}, {131071, 131072}}}, Tensor(&last, Shape{1, 1}, DType::f64)}}});
    EXPECT_EQ(last, 1.0);
    file.close();
}

} // namespace

} // namespace trireme::storage
