// The groups of a layout, each by one MPI_Comm_split of the world: the ranks of a group share its lowest
// world rank as colour. Groups of one rank need no MPI.
#include <functional>

#include "comm/mpi/mpi_communicator.hpp"
#include "comm/mpi/runtime_impl.hpp"

#ifdef TRIREME_CUDA
#include "comm/nccl/make_nccl.hpp"
#endif

namespace trireme::comm {

namespace {

using backend::StreamRole;

// `members`: the world ranks of this rank's group, of equal size on all ranks; `belongs`: whether this rank
// is one.
std::unique_ptr<Communicator> make_group(const char* name, const std::vector<int>& members, int world_rank,
                                         MPI_Comm world, backend::Backend& backend, backend::StreamRole role,
                                         const std::shared_ptr<MpiProgress>& progress, bool belongs = true) {
    if (members.size() == 1)
        return make_self_communicator(name, world_rank, &backend);
    MpiComm comm = split(world, belongs ? members.front() : -1, name);
    if (!belongs)
        return nullptr;
    std::unique_ptr<Communicator> group;
    if (backend.device() == backend::Device::cpu)
        group = std::make_unique<MpiCommunicator>(name, std::move(comm), backend, progress);
#ifdef TRIREME_CUDA
    else
        group = make_nccl_communicator(name, std::move(comm), backend, role);
#endif
    static_cast<void>(role); // host memory has one stream
    TRIREME_ASSERT(group->world_ranks() == members, "the ", name, " has other members than planned");
    return group;
}

} // namespace

ProcessGroups::ProcessGroups(Runtime& runtime, const topology::Grid& layout, backend::Backend& backend)
    : grid(layout), at(layout.coordinates(runtime.rank())), world(&runtime.world()) {
    const int rank = runtime.rank();
    TRIREME_ASSERT(grid.ranks() == runtime.ranks(), grid.text(), " on ", runtime.ranks(), " ranks");
    const MPI_Comm all = runtime.impl_->world.comm();
#ifdef TRIREME_CUDA
    if (backend.device() == backend::Device::cuda)
        choose_nccl_settings(grid.pipeline);
#endif

    const std::vector<int> stage_members = grid.stage_group(rank);
    stage = std::make_unique<MpiHostGroup>("stage group", split(all, stage_members.front(), "stage group"));
    const auto progress = std::make_shared<MpiProgress>();
    const auto make = [&](const char* name, const std::vector<int>& members, StreamRole role,
                          bool belongs = true) {
        return make_group(name, members, rank, all, backend, role, progress, belongs);
    };
    tensor = make("tensor group", grid.tensor_group(rank), StreamRole::compute);
    data = make("data group", grid.data_group(rank), StreamRole::gradient_reduction);
    pipeline = make("pipeline group", grid.pipeline_group(rank), StreamRole::pipeline);

    const bool at_an_end = at.pipeline == 0 || at.pipeline == grid.pipeline - 1;
    embedding = make("embedding group", grid.embedding_group(rank), StreamRole::compute, at_an_end);

    model = make("model group", grid.model_group(rank), StreamRole::compute);
}

ProcessGroups ProcessGroups::alone(HostGroup& world) {
    TRIREME_ASSERT(world.size() == 1, "a rank alone in a group of ", world.size());
    ProcessGroups groups;
    groups.world = &world;
    groups.stage = make_self_host_group();
    groups.tensor = make_self_communicator("tensor group");
    groups.data = make_self_communicator("data group");
    groups.pipeline = make_self_communicator("pipeline group");
    groups.embedding = make_self_communicator("embedding group");
    groups.model = make_self_communicator("model group");
    return groups;
}

ProcessGroups ProcessGroups::without_members(const topology::Grid& layout,
                                             const topology::Coordinates& where) {
    ProcessGroups groups;
    groups.grid = layout;
    groups.at = where;
    return groups;
}

std::int64_t ProcessGroups::scratch_bytes(const topology::Grid& layout, const topology::Coordinates& where,
                                          backend::Device device) {
    const bool at_an_end = where.pipeline == 0 || where.pipeline == layout.pipeline - 1;
    std::int64_t bytes = 0;
    for (const int size : {layout.tensor, layout.data, layout.pipeline,
                           at_an_end && layout.pipeline > 1 ? 2 : 1, layout.tensor * layout.pipeline})
        bytes += device == backend::Device::cpu ? MpiCommunicator::scratch_bytes(size)
                 : size > 1                     ? kProbeBytes
                                                : 0;
    return bytes;
}

} // namespace trireme::comm
