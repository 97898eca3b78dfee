// The data of contiguous datasets, read and written in place by plain system calls: a dataset that has its
// space from the start lies at a fixed offset of its file, so a rank can move its own boxes without HDF5,
// without MPI and without waiting for another rank. Any one thread may use a DirectFile; several may use one
// file.
//
//     // one rank: creates the datasets, asks for their places, closes the file, shares the places
//     // all ranks: DirectFile file(path, DirectFile::Mode::write); file.write(place, box, bytes);
//     file.sync();
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "trireme/base/error.hpp"
#include "trireme/tensor/dtype.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::storage {

// Where a dataset lies in its file.
struct Place {
    std::int64_t offset = 0; // bytes
    std::vector<std::int64_t> shape;
    DType type = DType::f32;
    std::int64_t end() const { return offset + topology::Box::whole(shape).elements() * size_bytes(type); }
    // From the first to the last byte of a box; what lies between its runs is in it as well.
    topology::Interval extent(const topology::Box& box) const;
};

class DirectFile {
  public:
    enum class Mode : std::uint8_t { read, write };

    // The file must exist. Errors are of category output for files to write, else checkpoint.
    DirectFile(const std::filesystem::path& path, Mode mode);
    DirectFile(DirectFile&& other) noexcept;
    DirectFile& operator=(DirectFile&& other) noexcept;
    DirectFile(const DirectFile&) = delete;
    DirectFile& operator=(const DirectFile&) = delete;
    ~DirectFile();

    // Asks the file system for the first `bytes` of the file, so that no later write is refused for want of
    // room; a file system that cannot promise passes.
    void reserve(std::int64_t bytes);
    // `bytes`: the elements of the box, row-major, in the dataset's own type.
    void write(const Place& place, const topology::Box& box, std::span<const std::byte> bytes);
    void read(const Place& place, const topology::Box& box, std::span<std::byte> bytes);
    std::int64_t size() const; // bytes
    // What was written there goes to the disk from now on, without waiting; a hint, which sync() completes.
    void start_writing(const topology::Interval& bytes);
    void sync();
    // What was read or synced need not stay in memory: the next read asks the disk, where the system takes
    // the hint.
    void forget();

    const std::filesystem::path& path() const { return path_; }

  private:
    [[noreturn]] void fail(const char* tried) const;

    std::filesystem::path path_;
    Mode mode_;
    int descriptor_ = -1;
};

} // namespace trireme::storage
