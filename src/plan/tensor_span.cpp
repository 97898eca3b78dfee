// Compares two machines that differ in how many GPUs a node has.
#include "trireme/plan/tensor_span.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "plan/machine_presets.hpp"
#include "trireme/plan/cost.hpp"

namespace trireme::plan {

TensorSpan tensor_span(const topology::Grid& grid, const std::vector<std::string>& hosts) {
    TensorSpan span;
    for (int rank = 0; rank < grid.ranks(); ++rank) {
        if (grid.coordinates(rank).tensor != 0)
            continue;
        std::map<std::string, int> members;
        for (const int member : grid.tensor_group(rank))
            ++members[hosts[static_cast<std::size_t>(member)]];
        if (members.size() == 1)
            continue;
        if (span.groups++ == 0) {
            span.first_rank = rank;
            span.together = grid.tensor;
        }
        for (const auto& [host, count] : members)
            span.together = std::min(span.together, count);
    }
    return span;
}

SpanCost span_cost(const RunSetup& setup, const TensorSpan& span, const Machine& machine) {
    const auto seconds = [&](int gpus_per_node) {
        Machine with = machine;
        with.gpus_per_node = gpus_per_node;
        return predict(setup, with, software_of(setup)).seconds;
    };
    return {seconds(span.together), seconds(setup.grid.tensor)};
}

std::optional<Machine> machine_for(const std::string& device) {
    std::string name = device;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const MachinePreset& preset : presets())
        if (name.find(preset.name.substr(0, preset.name.find('-'))) != std::string::npos)
            return find_machine(std::string(preset.name));
    return std::nullopt;
}

} // namespace trireme::plan
