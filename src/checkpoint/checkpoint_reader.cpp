// Opens a checkpoint for tools.
#include "checkpoint/checkpoint_reader.hpp"

#include <algorithm>
#include <optional>

#include "checkpoint/names.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/tools.hpp"
#include "trireme/storage/safetensors.hpp"

namespace trireme::checkpoint {
namespace fs = std::filesystem;

fs::path require_checkpoint(const fs::path& path) {
    std::error_code failure;
    if (fs::exists(path / kIndexFile, failure))
        return path;
    if (const std::optional<fs::path> latest = find_latest(path))
        return *latest;
    throw Error(ErrorCategory::checkpoint, concat("there is no checkpoint in ", path.string()),
                {concat("neither ", kIndexFile, " nor ", kMarker, " is there"),
                 "try: a --save directory, or an iter_NNNNNNN directory in it"});
}

storage::FloatType float_type(DType type) {
    switch (type) {
    case DType::f32:
        return storage::FloatType::f32;
    case DType::f64:
        return storage::FloatType::f64;
    case DType::bf16:
        return storage::FloatType::bf16;
    default:
        throw Error(ErrorCategory::checkpoint, concat("tensors of ", name(type), " are no weights"));
    }
}

CheckpointReader::CheckpointReader(const fs::path& path)
    : path_(require_checkpoint(path)), state_(read_index_state(path_)) {
    const storage::File index = storage::File::open_alone(path_ / kIndexFile);
    program_ = index.read_text("/program");
    format_version_ = index.read_integer("/format_version");
    tensors_ = read_index_tensors(path_);
    groups_.emplace_back(kParameters);
    if (state_.has_optimizer)
        for (const char* group : kStateGroups)
            if (state_.has_master_weights || group != group_of(optimizer::StateKind::master_weights))
                groups_.emplace_back(group);
}

const std::string& CheckpointReader::weights() const {
    const auto found = std::ranges::find(groups_, group_of(optimizer::StateKind::master_weights));
    return found == groups_.end() ? groups_.front() : *found;
}

storage::File& CheckpointReader::stage_file(std::int64_t stage) {
    auto found = files_.find(stage);
    if (found == files_.end())
        found = files_.emplace(stage, storage::File::open_alone(path_ / stage_name(stage))).first;
    return found->second;
}

storage::DatasetInfo CheckpointReader::info(const std::string& group, const std::string& name) {
    storage::DatasetInfo found = file_of(name).info(group + name);
    const std::vector<std::int64_t>& listed = tensors_.at(name).shape;
    if (found.shape != listed)
        throw Error(ErrorCategory::checkpoint,
                    concat(path_.string(), " is damaged: ", group, name, " has another shape than ",
                           kIndexFile, " says"),
                    {concat(Shape(found.shape).text(), " in ", stage_name(tensors_.at(name).stage), ", ",
                            Shape(listed).text(), " in ", kIndexFile)});
    return found;
}

void CheckpointReader::read(const std::string& group, const std::string& name, const topology::Box& box,
                            std::span<std::byte> bytes) {
    const DType type = info(group, name).type;
    const storage::Part part{box, Tensor(bytes.data(), Shape(box.extents()), type)};
    TRIREME_ASSERT(part.tensor.bytes() == static_cast<std::int64_t>(bytes.size()), bytes.size(),
                   " bytes for ", box.text(), " of ", name);
    file_of(name).read(group + name, {&part, 1});
}

std::vector<double> CheckpointReader::values(const std::string& group, const std::string& name,
                                             const topology::Interval& elements) {
    const storage::DatasetInfo dataset = info(group, name);
    std::vector<std::byte> bytes;
    std::vector<double> result(static_cast<std::size_t>(elements.size()));
    std::size_t at = 0;
    for (const topology::Box& box : topology::boxes_of_flat_range(dataset.shape, elements)) {
        const auto count = static_cast<std::size_t>(box.elements());
        bytes.resize(count * static_cast<std::size_t>(size_bytes(dataset.type)));
        read(group, name, box, bytes);
        storage::convert(bytes, float_type(dataset.type),
                         std::as_writable_bytes(std::span(result).subspan(at, count)),
                         storage::FloatType::f64);
        at += count;
    }
    return result;
}

} // namespace trireme::checkpoint
