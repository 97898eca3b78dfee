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
#include "trireme/storage/file.hpp"
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
    // `path`: a checkpoint, or a directory of checkpoints, of which the marker's is taken. Throws Error
    // (checkpoint): nothing there, not readable, of a newer format.
    explicit CheckpointReader(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    const State& state() const { return state_; }
    const std::string& program() const { return program_; } // that wrote it
    std::int64_t format_version() const { return format_version_; }
    const std::map<std::string, TensorEntry>& tensors() const { return tensors_; }
    // Of "/parameters/", "/master_weights/", "/first_moment/", "/second_moment/" those that it holds.
    const std::vector<std::string>& groups() const { return groups_; }
    // Where the most exact weights are.
    const std::string& weights() const;

    // Element type and shape of GROUP NAME, held against the table of tensors.
    storage::DatasetInfo info(const std::string& group, const std::string& name);
    // `bytes`: of the elements of `box` in the dataset's own type, row-major.
    void read(const std::string& group, const std::string& name, const topology::Box& box,
              std::span<std::byte> bytes);
    // A run of the row-major elements, as doubles.
    std::vector<double> values(const std::string& group, const std::string& name,
                               const topology::Interval& elements);

  private:
    storage::File& stage_file(std::int64_t stage);
    storage::File& file_of(const std::string& name) { return stage_file(tensors_.at(name).stage); }

    std::filesystem::path path_;
    State state_;
    std::string program_;
    std::int64_t format_version_ = 0;
    std::map<std::string, TensorEntry> tensors_;
    std::vector<std::string> groups_;
    std::map<std::int64_t, storage::File> files_;
};

} // namespace trireme::checkpoint
