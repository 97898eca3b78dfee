// HDF5 files that a group of ranks writes and reads together: hyperslabs of global N-D datasets. The only
// door to HDF5.
//
//     storage::File file = storage::File::create(path, *groups.stage);     // collective, as is all below
//     file.create_dataset("/parameters/embedding", shape, DType::f32);
//     file.write("/parameters/embedding", {{my_box, my_tensor}});          // disjoint boxes; a rank may have
//     none file.close();                                                        // on disk on all ranks, or
//     an Error on all
//
// Each call is collective over the file's group, with the same names, shapes and types on every rank, and
// ends in an agreement: it works on all ranks or throws the same Error on all of them (a full disk often
// shows on one rank only). Files written end in Errors of category output, files read in category checkpoint.
// Calls from several threads take turns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/host_group.hpp"
#include "trireme/storage/direct_file.hpp"
#include "trireme/tensor/tensor.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::storage {

// A box of a dataset and its elements in host memory, row-major and contiguous. fp32 and fp64 are converted
// to and from the dataset's type; other types must be the dataset's own.
struct Part {
    topology::Box box;
    Tensor tensor;
};

struct DatasetInfo {
    std::vector<std::int64_t> shape;
    DType type = DType::f32;
};

enum class Durability : std::uint8_t { synced, later };

class File {
  public:
    // Replaces what is there. A group of one rank uses plain files, larger ones MPI-IO. The group must
    // outlive the file.
    static File create(const std::filesystem::path& path, comm::HostGroup& group);
    static File open(const std::filesystem::path& path, comm::HostGroup& group); // to read
    // This rank alone. Only such a file follows external links.
    static File create_alone(const std::filesystem::path& path);
    static File open_alone(const std::filesystem::path& path);

    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File(); // gives up what close() did not finish; says nothing

    // Names are paths ("/parameters/embedding"); the groups on the way are made. At least one axis, no empty
    // one.
    void create_dataset(const std::string& name, std::span<const std::int64_t> shape, DType type);
    void write(const std::string& name, std::span<const Part> parts);
    void read(const std::string& name, std::span<const Part> parts);
    bool has(const std::string& name) const;
    DatasetInfo info(const std::string& name) const; // Error if there is no such dataset
    // Where its elements lie, for DirectFile. Error if they do not lie in one piece.
    Place place(const std::string& name) const;
    std::vector<std::string> names(const std::string& group) const; // in it, sorted

    // The same value on all ranks.
    void write_text(const std::string& name, const std::string& text);
    std::string read_text(const std::string& name) const;
    void write_integer(const std::string& name, std::int64_t value);
    std::int64_t read_integer(const std::string& name) const;

    // `name` of this file shows `there` of another file; its path is taken relative to this file's directory.
    // Files of this rank alone.
    void link(const std::string& name, const std::filesystem::path& other_file, const std::string& there);
    // Where `name` points: the file as it was given, and the name there. Throws Error: it is no such link.
    struct LinkTarget {
        std::string file, name;
        bool operator==(const LinkTarget&) const = default;
    };
    LinkTarget link_target(const std::string& name) const;

    // A written file is then on disk, synced by every rank; or, `later`, as soon as somebody syncs it.
    void close(Durability durability = Durability::synced);

    // Largest transfer of one call to HDF5, which never comes near MPI's 2 GiB. For tests.
    void set_piece_bytes(std::int64_t bytes);

    struct Impl;

  private:
    explicit File(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::storage
