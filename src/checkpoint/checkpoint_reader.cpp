// Opens a checkpoint for tools.
#include "checkpoint/checkpoint_reader.hpp"

#include <optional>

#include "checkpoint/names.hpp"
#include "trireme/checkpoint/select.hpp"
#include "trireme/checkpoint/tools.hpp"

namespace trireme::checkpoint {

namespace fs = std::filesystem;

fs::path require_checkpoint(const fs::path& path, std::optional<std::int64_t> step) {
    std::error_code ignored;
    if (!step && fs::exists(path / kIndexFile, ignored))
        return path;
    Selection selection;
    const auto failure = comm::attempt(*comm::make_self_host_group(), [&] {
        selection = select(path, {step, FallBack::no});
    });
    if (failure) { // with a cure for people who are not starting a run
        std::vector<std::string> details = failure->details();
        std::erase_if(details, [](const std::string& line) { return line.starts_with("try: "); });
        details.emplace_back(
            "try: one of its iter_NNNNNNN directories; trireme checkpoint verify says which are whole");
        throw Error(failure->category(), failure->what(), std::move(details));
    }
    if (!selection.checkpoint)
        throw Error(ErrorCategory::checkpoint, concat("there is no checkpoint in ", path.string()),
                    {concat("neither ", kIndexFile, " nor ", kMarker, " is there"),
                     "try: a --save directory, or an iter_NNNNNNN directory in it"});
    return *selection.checkpoint;
}

storage::FloatType float_type(DType type) {
    switch (type) {
    case DType::f32:
        return storage::FloatType::f32;
    case DType::f64:
        return storage::FloatType::f64;
    case DType::bf16:
        return storage::FloatType::bf16;
    case DType::f16:
        return storage::FloatType::f16;
    default:
        throw Error(ErrorCategory::checkpoint, concat("tensors of ", name(type), " are no weights"));
    }
}

CheckpointReader::CheckpointReader(const fs::path& path)
    : path_(require_checkpoint(path)), index_(read_index(path_)), stages_(path_, index_) {
    for (const TensorEntry& tensor : index_.contents.tensors)
        tensors_.emplace(tensor.name, tensor);
    for (const GroupEntry& group : index_.contents.groups)
        groups_.push_back(group.name);
}

std::string CheckpointReader::weights() const {
    const std::string master = group_of(optimizer::StateKind::master_weights);
    return index_.contents.has_group(master) ? master : kParameters;
}

std::size_t CheckpointReader::slot(const std::string& group, const std::string& name) const {
    return index_.contents.slot(index_.contents.find_group(group).value(),
                                index_.contents.find_tensor(name).value());
}

DType CheckpointReader::type(const std::string& group, const std::string& name) {
    return stages_.type(slot(group, name));
}

void CheckpointReader::read(const std::string& group, const std::string& name, const topology::Box& box,
                            std::span<std::byte> bytes) {
    stages_.read(slot(group, name), box, bytes);
}

std::vector<double> CheckpointReader::values(const std::string& group, const std::string& name,
                                             const topology::Interval& elements) {
    const DType type = this->type(group, name);
    std::vector<std::byte> bytes;
    std::vector<double> result(static_cast<std::size_t>(elements.size()));
    std::size_t at = 0;
    for (const topology::Box& box : topology::boxes_of_flat_range(tensors_.at(name).shape, elements)) {
        const auto count = static_cast<std::size_t>(box.elements());
        bytes.resize(count * static_cast<std::size_t>(size_bytes(type)));
        read(group, name, box, bytes);
        storage::convert(bytes, float_type(type),
                         std::as_writable_bytes(std::span(result).subspan(at, count)),
                         storage::FloatType::f64);
        at += count;
    }
    return result;
}

void CheckpointReader::require_sums() const {
    if (!index_.sums)
        return;
    const std::vector<Difference> wrong = differences(stages_.sums(), *index_.sums);
    if (wrong.empty())
        return;
    const Difference& first = wrong.front();
    throw Error(ErrorCategory::checkpoint,
                concat(path_.string(), " is damaged: ", index_.contents.dataset(first.slot),
                       " is not what was saved"),
                {concat("elements ", first.range.begin, " to ", first.range.end - 1, ": ", first.what),
                 "try: trireme checkpoint verify tells all; another checkpoint, or a copy of this one"});
}

} // namespace trireme::checkpoint
