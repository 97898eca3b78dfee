// Saves a checkpoint: into a partial directory, complete and synced, then renamed, then named by the marker.
#include <algorithm>
#include <functional>
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

// Writes one kind of tensor of every parameter that the stage owns.
void write_group(storage::File& file, const char* group, const Model& model,
                 const std::function<Tensor(const model::HeldParameter&)>& tensor_of) {
    const topology::Coordinates& at = model.groups->at;
    std::vector<std::byte> staging;
    for (const model::HeldParameter& held : model.parameters->held()) {
        if (held.role == model::Role::copy)
            continue;
        const Tensor tensor = tensor_of(held);
        const std::string name = group + held.parameter.name;
        file.create_dataset(name, held.parameter.shape, tensor.type());
        // Data ranks hold the same, tensor ranks too where nothing is cut: one writes.
        const bool writes =
            at.data == 0 && (held.parameter.split_axis >= 0 || at.tensor == 0) && !held.shard.box.empty();
        if (!writes) {
            file.write(name, {});
            continue;
        }
        const Tensor kept = tensor.flat(0, held.shard.box.elements()); // padding rows come last
        staging.resize(static_cast<std::size_t>(kept.bytes()));
        const Tensor host(staging.data(), kept.shape(), kept.type());
        model.backend->copy_to_host(kept, host);
        const storage::Part part{held.shard.box, host.reshaped(Shape(held.shard.box.extents()))};
        file.write(name, {&part, 1});
    }
}

void write_stage(const fs::path& path, const Model& model) {
    storage::File file = storage::File::create(path, *model.groups->stage);
    const auto weight = [&](const model::HeldParameter& held) { return model.parameters->weight(held); };
    write_group(file, kParameters, model, weight);
    if (model.optimizer != nullptr) {
        const auto first = [&](const model::HeldParameter& held) {
            return model.optimizer->first_moment(held);
        };
        const auto second = [&](const model::HeldParameter& held) {
            return model.optimizer->second_moment(held);
        };
        write_group(file, kFirstMoment, model, first);
        write_group(file, kSecondMoment, model, second);
    }
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
        if (first_rank)
            created.emplace(partial);
    });
    comm::agree(world, [&] { write_stage(partial / stage_name(model.groups->at.pipeline), model); });
    comm::agree(world, [&] {
        if (!first_rank)
            return;
        write_index(partial, state, tensor_table(model.parameters->setup()));
        created->publish(final);
        publish_file(directory / kMarker, concat(state.iteration, "\n"));
    });
    return final;
}

} // namespace trireme::checkpoint
