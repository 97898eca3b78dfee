// What a checkpoint holds: the logical tensors of the catalogue, in up to four groups (parameters, master
// weights, both moments) that all have the same tensors. A slot is one dataset: tensor t of group g. All
// ranks number slots alike, so tables of them can be added up over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sums.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/optimizer/optimizer.hpp"

namespace trireme::checkpoint {

struct TensorEntry {
    std::string name; // of the logical parameter
    std::int64_t stage = 0;
    std::vector<std::int64_t> shape;
};

struct GroupEntry {
    std::string name; // "/parameters/"
    // Unknown (version 1): the stage files say it.
    std::optional<DType> type;
};

struct Contents {
    std::vector<TensorEntry> tensors;
    std::vector<GroupEntry> groups;

    std::size_t slots() const { return tensors.size() * groups.size(); }
    std::size_t slot(std::size_t group, std::size_t tensor) const { return group * tensors.size() + tensor; }
    const TensorEntry& tensor(std::size_t slot) const { return tensors[slot % tensors.size()]; }
    const GroupEntry& group(std::size_t slot) const { return groups[slot / tensors.size()]; }
    std::string dataset(std::size_t slot) const { return group(slot).name + tensor(slot).name; }

    std::optional<std::size_t> find_group(const std::string& name) const;
    std::optional<std::size_t> find_tensor(const std::string& name) const;
    bool has_group(const std::string& name) const { return find_group(name).has_value(); }
    SumTable empty_sums() const;
};

// Of a model with this optimizer (null: weights alone). Without MPI; the same on all ranks.
Contents contents_of(const model::ParameterSetup& setup, const optimizer::Optimizer* optimizer);

} // namespace trireme::checkpoint
