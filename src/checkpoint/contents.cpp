// The table of tensors, from the catalogue and the placement of layers.
#include "contents.hpp"

#include <algorithm>

#include "names.hpp"

namespace trireme::checkpoint {
namespace {

std::int64_t stage_of(const catalogue::Parameter& parameter, const model::ParameterSetup& setup) {
    if (parameter.owner == catalogue::Owner::head)
        return setup.grid.pipeline - 1;
    for (int stage = 0; stage < setup.grid.pipeline; ++stage)
        for (const topology::Interval& layers : setup.placement.layers[static_cast<std::size_t>(stage)])
            if (parameter.owner == catalogue::Owner::layer && layers.begin <= parameter.layer &&
                parameter.layer < layers.end)
                return stage;
    return 0;
}

template <class Entries>
std::optional<std::size_t> find_in(const Entries& entries, const std::string& name) {
    const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return entry.name == name; });
    if (found == entries.end())
        return std::nullopt;
    return static_cast<std::size_t>(found - entries.begin());
}

} // namespace

std::optional<std::size_t> Contents::find_group(const std::string& name) const {
    return find_in(groups, name);
}

std::optional<std::size_t> Contents::find_tensor(const std::string& name) const {
    return find_in(tensors, name);
}

SumTable Contents::empty_sums() const {
    std::vector<std::vector<std::int64_t>> shapes;
    for (std::size_t slot = 0; slot < slots(); ++slot)
        shapes.push_back(tensor(slot).shape);
    return SumTable(std::move(shapes));
}

Contents contents_of(const model::ParameterSetup& setup, const optimizer::Optimizer* optimizer) {
    Contents contents;
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(setup.config, setup.grid.tensor))
        contents.tensors.push_back({parameter.name, stage_of(parameter, setup), parameter.shape});
    contents.groups.push_back({kParameters, setup.weight_type});
    if (optimizer != nullptr)
        for (const optimizer::StateKind kind : optimizer::kAllStateKinds)
            if (optimizer->has(kind))
                contents.groups.push_back({group_of(kind), setup.gradient_type});
    return contents;
}

} // namespace trireme::checkpoint
