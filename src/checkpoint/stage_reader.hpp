// Reads boxes of the tensors of a checkpoint, each stage file opened once, on first use, and adds up what it
// reads.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "index.hpp"
#include "trireme/storage/direct_file.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {

class StageReader {
  public:
    StageReader(std::filesystem::path checkpoint, const Index& index)
        : checkpoint_(std::move(checkpoint)), index_(index), sums_(index.contents.empty_sums()) {}

    // The type of the elements in the file. Throws Error (checkpoint), also if they are not as the index
    // says.
    DType type(std::size_t slot) { return place(slot).type; }
    // Throws Error (checkpoint) if the file ends before the tensor does.
    void require_within_file(std::size_t slot);
    // Fills `elements`, row-major, of the file's type.
    void read(std::size_t slot, const topology::Box& box, std::span<std::byte> elements);

    const SumTable& sums() const { return sums_; } // of all that was read

  private:
    struct OpenFile {
        storage::File hdf5;
        storage::DirectFile direct;
    };
    OpenFile& file(std::int64_t stage);
    const storage::Place& place(std::size_t slot);

    std::filesystem::path checkpoint_;
    const Index& index_;
    SumTable sums_;
    std::map<std::int64_t, OpenFile> files_;
    std::map<std::size_t, storage::Place> places_;
};

} // namespace trireme::checkpoint
