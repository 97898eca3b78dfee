// What one rank writes into the file of its stage: pieces of tensors at the places that the file's datasets
// have had since it was laid out. Neither MPI nor HDF5, so a thread of its own may do it while training goes
// on.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "contents.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/host_group.hpp"
#include "trireme/storage/direct_file.hpp"

namespace trireme::checkpoint {

// By slot; nothing for datasets of other stages.
using Places = std::vector<std::optional<storage::Place>>;

// The first rank of the stage creates its file with all datasets and reserves its room; every rank learns the
// places. Collective over the stage.
Places lay_out_stage(const std::filesystem::path& file, const Contents& contents, std::int64_t stage,
                     comm::HostGroup& group);

// Elements are hashed and written by small pieces, while they are in the processor's cache, and the disk
// works from the first of them on instead of waiting for the sync.
class StageWriter {
  public:
    StageWriter(const std::filesystem::path& file, const Contents& contents, Places places);

    // `elements`: those of the box, row-major, of the type of the slot's group.
    void write(std::size_t slot, const topology::Box& box, std::span<const std::byte> elements);
    // On disk, and read again by so many threads, of which this is one. Throws Error (output) if what is read
    // is not what was written.
    void finish(ReadBack read_back, std::size_t threads);

    const SumTable& sums() const { return sums_; } // of what was written

  private:
    struct Written {
        std::size_t slot;
        topology::Box box;
        std::uint64_t sum;
    };
    void read_again(std::span<const Written> pieces) const;
    std::uint64_t sum_in_file(storage::DirectFile& file, const Written& piece,
                              std::span<std::byte> buffer) const;

    storage::DirectFile file_;
    const Contents& contents_;
    Places places_;
    SumTable sums_;
    std::vector<Written> written_;
    topology::Interval waiting_; // bytes of the file that the disk has not been told of
};

} // namespace trireme::checkpoint
