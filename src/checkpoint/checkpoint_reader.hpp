// A complete checkpoint, opened by one process to be looked at: what tensors of which groups it holds, and
// their elements by parts. Tools read through it; a run loads by layout (load.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/index.hpp"
#include "checkpoint/stage_reader.hpp"
#include "trireme/storage/safetensors.hpp"

namespace trireme::checkpoint {

// What tools hold of a tensor at a time.
inline constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

// Cuts [0, elements) into pieces of at most kPieceElements: use(interval).
template <class Use>
void for_each_piece(std::int64_t elements, Use use) {
    for (std::int64_t first = 0; first < elements; first += kPieceElements)
        use(topology::Interval{first, std::min(first + kPieceElements, elements)});
}

// Throws Error (checkpoint) for a type that no weights have.
storage::FloatType float_type(DType type);

class CheckpointReader {
  public:
    // `path`: as of require_checkpoint() (tools.hpp). Throws Error (checkpoint): nothing there, not readable,
    // damaged, of a newer format.
    explicit CheckpointReader(const std::filesystem::path& path);
    CheckpointReader(const CheckpointReader&) = delete;
    CheckpointReader& operator=(const CheckpointReader&) = delete;

    const std::filesystem::path& path() const { return path_; }
    const Index& index() const { return index_; }
    const State& state() const { return index_.state; }
    const std::map<std::string, TensorEntry>& tensors() const { return tensors_; } // by name
    const std::vector<std::string>& groups() const { return groups_; }             // "/parameters/" first
    // Where the most exact weights are: "/master_weights/", or else "/parameters/".
    std::string weights() const;

    // Throws Error (checkpoint) if the stage file is not as the index says.
    DType type(const std::string& group, const std::string& name);
    // `bytes`: of the elements of `box` in the dataset's own type, row-major.
    void read(const std::string& group, const std::string& name, const topology::Box& box,
              std::span<std::byte> bytes);
    // A run of the row-major elements, as doubles.
    std::vector<double> values(const std::string& group, const std::string& name,
                               const topology::Interval& elements);

    // Holds the sums of all that was read against the saved ones; of a dataset, all must have been read as
    // often. Throws Error (checkpoint) that names what is damaged.
    void require_sums() const;

  private:
    std::size_t slot(const std::string& group, const std::string& name) const;

    std::filesystem::path path_;
    Index index_;
    std::map<std::string, TensorEntry> tensors_;
    std::vector<std::string> groups_;
    StageReader stages_;
};

} // namespace trireme::checkpoint
