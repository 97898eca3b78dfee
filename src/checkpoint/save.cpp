// Saves a checkpoint: into a partial directory, complete and synced, then renamed, then named by the marker.
#include <algorithm>
#include <unistd.h>

#include "index.hpp"
#include "names.hpp"
#include "trireme/base/file.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// The directory that a checkpoint is written into; gone again with all in it unless it was published. Rank
// 0's.
class PartialDirectory {
  public:
    explicit PartialDirectory(fs::path path) : path_(std::move(path)) {
        std::error_code failure;
        fs::remove_all(path_, failure); // what an interrupted save left
        fs::create_directories(path_, failure);
        if (failure)
            throw Error(ErrorCategory::output,
                        concat("cannot create ", path_.string(), ": ", failure.message()),
                        {"try: check rights and room of the --save directory (ls -ld, df)"});
    }
    PartialDirectory(const PartialDirectory&) = delete;
    PartialDirectory& operator=(const PartialDirectory&) = delete;
    ~PartialDirectory() {
        std::error_code ignored;
        if (!path_.empty())
            fs::remove_all(path_, ignored);
    }

    // Becomes `final`; a checkpoint of that name is replaced.
    void publish(const fs::path& final) {
        sync_directory(path_);
        const fs::path aside = concat(final.string(), ".replaced");
        std::error_code failure;
        fs::remove_all(aside, failure);
        if (fs::exists(final))
            fs::rename(final, aside, failure);
        if (!failure)
            fs::rename(path_, final, failure);
        if (failure)
            throw Error(ErrorCategory::output, concat("cannot rename ", path_.string(), " to ",
                                                      final.string(), ": ", failure.message()));
        path_.clear();
        sync_directory(final.parent_path());
        fs::remove_all(aside, failure);
    }

  private:
    fs::path path_;
};

std::vector<TensorEntry> tensor_table(const model::ParameterSetup& setup) {
    std::vector<TensorEntry> tensors;
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(setup.config, setup.grid.tensor)) {
        TensorEntry entry{parameter.name, 0, parameter.shape};
        if (parameter.owner == catalogue::Owner::head)
            entry.stage = setup.grid.pipeline - 1;
        for (int stage = 0; stage < setup.grid.pipeline; ++stage)
            for (const topology::Interval& layers : setup.placement.layers[static_cast<std::size_t>(stage)])
                if (parameter.owner == catalogue::Owner::layer && layers.begin <= parameter.layer &&
                    parameter.layer < layers.end)
                    entry.stage = stage;
        tensors.push_back(std::move(entry));
    }
    return tensors;
}

DType group_type(const char* group, const Model& model) {
    const model::ParameterSetup& setup = model.parameters->setup();
    return group == kParameters ? setup.weight_type : setup.gradient_type;
}

// What a checkpoint takes on disk, a little more than less.
std::int64_t size_on_disk(const State& state, const Model& model) {
    constexpr std::int64_t kAroundTensor = 1024, kAroundFile = 16384; // names, shapes, tables
    const model::ParameterSetup& setup = model.parameters->setup();
    std::int64_t element_bytes = size_bytes(setup.weight_type), groups = 1;
    if (model.optimizer != nullptr)
        for (const optimizer::StateKind kind : optimizer::kAllStateKinds)
            if (model.optimizer->has(kind)) {
                element_bytes += size_bytes(group_type(group_of(kind), model));
                ++groups;
            }
    std::int64_t bytes =
        (setup.grid.pipeline + 1) * kAroundFile + static_cast<std::int64_t>(state.options.size());
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(setup.config, setup.grid.tensor))
        bytes += parameter.elements() * element_bytes + groups * kAroundTensor;
    return bytes;
}

// Writes the parts that this rank is to write of one dataset. Collective over the stage.
void write_parts(storage::File& file, const std::string& name, const Model& model,
                 std::span<const optimizer::StatePart> parts, std::vector<std::byte>& staging) {
    std::int64_t bytes = 0;
    for (const optimizer::StatePart& part : parts)
        bytes += part.tensor.bytes();
    staging.resize(static_cast<std::size_t>(bytes));
    std::vector<storage::Part> on_host;
    std::byte* at = staging.data();
    for (const optimizer::StatePart& part : parts) {
        const Tensor host(at, part.tensor.shape(), part.tensor.type());
        model.backend->copy_to_host(part.tensor, host);
        on_host.push_back({part.box, host.reshaped(Shape(part.box.extents()))});
        at += part.tensor.bytes();
    }
    file.write(name, on_host);
}

void write_stage(const fs::path& path, const Model& model) {
    storage::File file = storage::File::create(path, *model.groups->stage);
    const topology::Coordinates& at = model.groups->at;
    std::vector<std::byte> staging;
    const auto write_group = [&](const char* group, const auto& parts_of, bool all_data_ranks) {
        for (const model::HeldParameter& held : model.parameters->held()) {
            if (held.role == model::Role::copy)
                continue;
            std::vector<optimizer::StatePart> parts = parts_of(held);
            file.create_dataset(group + held.parameter.name, held.parameter.shape, group_type(group, model));
            // Where tensor or data ranks hold the same, the first one writes.
            const bool writes =
                (held.parameter.split_axis >= 0 || at.tensor == 0) && (all_data_ranks || at.data == 0);
            if (!writes)
                parts.clear();
            write_parts(file, group + held.parameter.name, model, parts, staging);
        }
    };
    write_group(
        kParameters,
        [&](const model::HeldParameter& held) {
            std::vector<optimizer::StatePart> parts;
            if (const topology::Box& box = held.shard.box; !box.empty()) // padding rows come last
                parts.push_back({box, model.parameters->weight(held).flat(0, box.elements())});
            return parts;
        },
        false);
    if (model.optimizer != nullptr)
        for (const optimizer::StateKind kind : optimizer::kAllStateKinds)
            if (model.optimizer->has(kind))
                write_group(
                    group_of(kind),
                    [&](const model::HeldParameter& held) { return model.optimizer->parts(held, kind); },
                    model.optimizer->sharded());
    file.close();
}

} // namespace

fs::path save(const fs::path& directory, const State& state, const Model& model) {
    comm::HostGroup& world = *model.groups->world;
    const bool first_rank = world.rank() == 0;
    const fs::path final = directory / iteration_name(state.iteration);
    const fs::path partial = concat(final.string(), ".partial");
    std::optional<PartialDirectory> created;
    comm::agree(world, [&] {
        if (!first_rank)
            return;
        created.emplace(partial);
        // A disk that gets full during a collective write leaves ranks waiting for each other inside HDF5:
        // ask before.
        require_room(partial, size_on_disk(state, model));
    });
    comm::agree(world, [&] { write_stage(partial / stage_name(model.groups->at.pipeline), model); });
    comm::agree(world, [&] {
        if (!first_rank)
            return;
        State written = state;
        written.has_optimizer = model.optimizer != nullptr;
        written.has_master_weights =
            written.has_optimizer && model.optimizer->has(optimizer::StateKind::master_weights);
        write_index(partial, written, tensor_table(model.parameters->setup()));
        created->publish(final);
        publish_file(directory / kMarker, concat(state.iteration, "\n"));
    });
    return final;
}

} // namespace trireme::checkpoint
