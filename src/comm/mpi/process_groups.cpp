// The groups of a layout, each by one MPI_Comm_split of all its ranks: the ranks of a group share its lowest
// rank as colour. Groups of one rank need no MPI.
#include <algorithm>
#include <functional>

#include "comm/mpi/mpi_communicator.hpp"
#include "comm/mpi/runtime_impl.hpp"

#ifdef TRIREME_CUDA
#include "comm/nccl/make_nccl.hpp"
#endif

namespace trireme::comm {

namespace {

using backend::StreamRole;

// `members`: the ranks of this rank's group, numbered within `all` and of equal number on all ranks;
// `belongs`: whether this rank is one.
std::unique_ptr<Communicator> make_group(const char* name, const std::vector<int>& members,
                                         const HostGroup& all, backend::Backend& backend,
                                         backend::StreamRole role,
                                         const std::shared_ptr<MpiProgress>& progress, bool belongs = true) {
    const auto in_world = [&](int rank) { return all.world_ranks()[static_cast<std::size_t>(rank)]; };
    if (members.size() == 1)
        return make_self_communicator(name, in_world(all.rank()), &backend);
    MpiComm comm = split(mpi_comm(all), belongs ? members.front() : -1, name);
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
    TRIREME_ASSERT(std::ranges::equal(group->world_ranks(), members, {}, {}, in_world), "the ", name,
                   " has other members than planned");
    return group;
}

} // namespace

ProcessGroups::ProcessGroups(Runtime& runtime, const topology::Grid& layout, backend::Backend& backend)
    : ProcessGroups(runtime.world(), layout, backend) {}

ProcessGroups::ProcessGroups(HostGroup& ranks, const topology::Grid& layout, backend::Backend& backend)
    : grid(layout), at(layout.coordinates(ranks.rank())), world(&ranks) {
    const int rank = ranks.rank();
    TRIREME_ASSERT(grid.ranks() == ranks.size(), grid.text(), " on ", ranks.size(), " ranks");
#ifdef TRIREME_CUDA
    if (backend.device() == backend::Device::cuda)
        choose_nccl_settings(grid.pipeline);
#endif

    const std::vector<int> stage_members = grid.stage_group(rank);
    stage = std::make_unique<MpiHostGroup>("stage group",
                                           split(mpi_comm(ranks), stage_members.front(), "stage group"));
    const auto progress = std::make_shared<MpiProgress>();
    const auto make = [&](const char* name, const std::vector<int>& members, StreamRole role,
                          bool belongs = true) {
        return make_group(name, members, ranks, backend, role, progress, belongs);
    };
    tensor = make("tensor group", grid.tensor_group(rank), StreamRole::tensor);
    key_value = make("key/value group", grid.key_value_group(rank), StreamRole::compute);
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
    groups.key_value = make_self_communicator("key/value group");
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

void ProcessGroups::abandon() {
    for (const auto* const group : {&tensor, &key_value, &data, &pipeline, &embedding, &model})
        if (*group)
            (*group)->abandon();
}

std::int64_t ProcessGroups::scratch_bytes(const topology::Grid& layout, const topology::Coordinates& where,
                                          backend::Device device) {
    const bool at_an_end = where.pipeline == 0 || where.pipeline == layout.pipeline - 1;
    std::int64_t bytes = 0;
    for (const int size : {layout.tensor, layout.key_value_holders, layout.data, layout.pipeline,
                           at_an_end && layout.pipeline > 1 ? 2 : 1, layout.tensor * layout.pipeline})
        bytes += device == backend::Device::cpu ? MpiCommunicator::scratch_bytes(size)
                 : size > 1                     ? kProbeBytes
                                                : 0;
    if (device == backend::Device::cuda && layout.data > 1 && layout.data <= kMostCopyingRanks)
        bytes += kCopyBytes;
    return bytes;
}

} // namespace trireme::comm
