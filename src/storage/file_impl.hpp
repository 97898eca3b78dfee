// What a File holds. Private to storage.
#pragma once

#include <functional>

#include "storage/hdf5.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::storage {

enum class Mode : std::uint8_t { read, write };

struct File::Impl {
    Impl(std::filesystem::path file_path, Mode file_mode, comm::HostGroup* of_group);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    bool parallel() const { return group->size() > 1; }
    // "cannot TRY NAME of FILE", in the category of this file.
    Attempt attempt(const char* tried, const std::string& name) const;
    // Runs `work` under the lock, marked as waiting; its failure on any rank becomes that of all.
    void together(const char* what, const std::function<void()>& work) const;
    // Sets up transfers of a dataset by all ranks at once.
    Properties transfer_properties(const Attempt& doing) const;
    bool exists(const std::string& name) const;
    Dataset open_dataset(const std::string& name, const Attempt& doing) const; // Error if there is none

    std::filesystem::path path;
    Mode mode;
    std::unique_ptr<comm::HostGroup> own_group; // of this rank alone
    comm::HostGroup* group;
    const char* wait_name;       // for the watchdog
    int exceptions;              // in flight when the file was opened
    mutable bool failed = false; // on all ranks together
    std::int64_t piece_bytes = std::int64_t{256} << 20;
    FileHandle handle;
};

} // namespace trireme::storage
