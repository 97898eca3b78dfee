// The steps of a save: into a partial directory, complete, synced and read again, then renamed, then named by
// the marker.
#include "saving.hpp"

#include "index.hpp"
#include "names.hpp"
#include "trireme/base/fault.hpp"
#include "trireme/base/file.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// What a checkpoint takes on disk, a little more than less.
std::int64_t size_on_disk(const State& state, const Contents& contents, int stages) {
    constexpr std::int64_t kAroundTensor = 1024, kAroundFile = 16384; // names, shapes, tables
    std::int64_t bytes = (stages + 1) * kAroundFile + static_cast<std::int64_t>(state.options.size());
    for (std::size_t slot = 0; slot < contents.slots(); ++slot)
        bytes += topology::Box::whole(contents.tensor(slot).shape).elements() *
                     size_bytes(contents.group(slot).type.value()) +
                 kAroundTensor;
    return bytes;
}

// A directory that some ranks do not see is one of each node alone: what they write there would be no
// checkpoint.
void require_seen(const fs::path& directory) {
    std::error_code failure;
    if (!fs::is_directory(directory, failure))
        throw Error(ErrorCategory::output, concat("not all ranks see ", directory.string()),
                    {"rank 0 has created it; the --save directory is not shared by all nodes",
                     "try: --save on a file system that all nodes mount"});
}

void require_complete(const SumTable& written, const Contents& contents) {
    for (std::size_t slot = 0; slot < contents.slots(); ++slot)
        for (std::int64_t number = 0; number < written.ranges(slot); ++number)
            TRIREME_ASSERT(written.elements(slot, number) == written.range(slot, number).size(),
                           written.elements(slot, number), " elements of ", contents.dataset(slot), " from ",
                           written.range(slot, number).begin, " were written");
}

} // namespace

Saving::Saving(fs::path directory, State state, const Model& model, SaveOptions options)
    : directory_(std::move(directory)), final_(directory_ / iteration_name(state.iteration)),
      state_(std::move(state)), options_(std::move(options)), world_(*model.groups->world),
      contents_(contents_of(model.parameters->setup(), model.optimizer)) {
    const fs::path partial = partial_name(final_);
    comm::agree(world_, [&] {
        if (world_.rank() != 0)
            return;
        fault_point("save-begin");
        created_.emplace(final_);
        if (options_.in_new_directory)
            options_.in_new_directory(partial);
        require_room(partial, size_on_disk(state_, contents_, model.groups->grid.pipeline));
    });
    comm::agree(world_, [&] { require_seen(partial); });
    const int stage = model.groups->at.pipeline;
    const fs::path file = partial / stage_name(stage);
    Places places;
    comm::agree(world_, [&] { places = lay_out_stage(file, contents_, stage, *model.groups->stage); });
    comm::agree(world_, [&] { writer_.emplace(file, contents_, std::move(places)); });
}

fs::path Saving::publish() {
    SumTable sums = writer_->sums();
    sums.all_reduce(world_);
    comm::agree(world_, [&] {
        require_complete(sums, contents_);
        if (world_.rank() != 0)
            return;
        const fs::path partial = partial_name(final_);
        fault_point("save-index");
        write_index(partial, state_, contents_, sums);
        if (options_.read_back == ReadBack::yes)
            static_cast<void>(read_index(partial));
        fault_point("save-publish");
        if (options_.before_publishing)
            options_.before_publishing();
        created_->publish();
        fault_point("save-marker");
        publish_file(directory_ / kMarker, concat(state_.iteration, "\n"));
        created_->settle();
        fault_point("save-end");
    });
    return final_;
}

} // namespace trireme::checkpoint
