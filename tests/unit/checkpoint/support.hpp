// A scratch directory, and small checkpoints made without a model.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "checkpoint/index.hpp"
#include "checkpoint/names.hpp"
#include "trireme/base/error.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint::test {

class ScratchDirectory {
  public:
    ScratchDirectory() {
        std::string pattern = (std::filesystem::temp_directory_path() / "trireme-unit-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~ScratchDirectory() { std::filesystem::remove_all(path_); }
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
}

// One stage with one tensor of six floats, of the given iteration.
inline std::filesystem::path make_checkpoint(const std::filesystem::path& directory, std::int64_t iteration) {
    const std::filesystem::path path = directory / iteration_name(iteration);
    std::filesystem::create_directories(path);
    Contents contents;
    contents.tensors = {{"weight", 0, {2, 3}}};
    contents.groups = {{kParameters, DType::f32}};
    std::vector<float> values{1, 2, 3, 4, 5, static_cast<float>(iteration)};
    const topology::Box box = topology::Box::whole(contents.tensors[0].shape);
    storage::File file = storage::File::create_alone(path / stage_name(0));
    file.create_dataset("/parameters/weight", contents.tensors[0].shape, DType::f32);
    const storage::Part part{box, Tensor(std::span(values), Shape{2, 3})};
    file.write("/parameters/weight", {&part, 1});
    file.close();
    SumTable sums = contents.empty_sums();
    sums.add(0, box, std::as_bytes(std::span(values)), DType::f32);
    State state;
    state.iteration = iteration;
    state.consumed_samples = 8 * iteration;
    state.seed = 0xFEDCBA9876543210u;
    state.options = "lr = 1\n";
    state.more_counters["loss_scale"] = 65536;
    write_index(path, state, contents, sums);
    return path;
}

// Message of the Error that `work` throws; "" if none.
template <class Work>
std::string error_of(Work work) {
    try {
        work();
    } catch (const Error& error) {
        return error.message();
    }
    return "";
}

} // namespace trireme::checkpoint::test
