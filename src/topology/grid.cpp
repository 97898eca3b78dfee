// The process grid: rank = tensor + TP * (data + DP * pipeline).
#include "trireme/topology/grid.hpp"

#include "trireme/base/error.hpp"

namespace trireme::topology {

namespace {

// The ranks met when one coordinate runs over [0, size) and the others stay.
std::vector<int> line(const Grid& grid, int rank, int size, int Coordinates::*axis) {
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(size));
    Coordinates at = grid.coordinates(rank);
    for (int i = 0; i < size; ++i) {
        at.*axis = i;
        ranks.push_back(grid.rank(at));
    }
    return ranks;
}

} // namespace

Coordinates Grid::coordinates(int rank) const {
    TRIREME_ASSERT(tensor >= 1 && data >= 1 && pipeline >= 1, text());
    TRIREME_ASSERT(rank >= 0 && rank < ranks(), "rank ", rank, " in ", text());
    return {rank % tensor, rank / tensor % data, rank / (tensor * data)};
}

int Grid::rank(const Coordinates& at) const {
    TRIREME_ASSERT(at.tensor >= 0 && at.tensor < tensor && at.data >= 0 && at.data < data &&
                       at.pipeline >= 0 && at.pipeline < pipeline,
                   "tensor ", at.tensor, ", data ", at.data, ", pipeline ", at.pipeline, " in ", text());
    return at.tensor + tensor * (at.data + data * at.pipeline);
}

std::vector<int> Grid::tensor_group(int rank) const {
    return line(*this, rank, tensor, &Coordinates::tensor);
}

std::vector<int> Grid::key_value_group(int rank) const {
    TRIREME_ASSERT(key_value_holders >= 1 && tensor % key_value_holders == 0, key_value_holders,
                   " holders in ", text());
    std::vector<int> ranks;
    for (int i = 0; i < key_value_holders; ++i)
        ranks.push_back(rank - rank % key_value_holders + i); // tensor is the fastest coordinate
    return ranks;
}

std::vector<int> Grid::data_group(int rank) const {
    return line(*this, rank, data, &Coordinates::data);
}

std::vector<int> Grid::pipeline_group(int rank) const {
    return line(*this, rank, pipeline, &Coordinates::pipeline);
}

std::vector<int> Grid::stage_group(int rank) const {
    // Pipeline is the slowest coordinate, so a stage is one run of ranks.
    const int first = coordinates(rank).pipeline * tensor * data;
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(tensor * data));
    for (int i = 0; i < tensor * data; ++i)
        ranks.push_back(first + i);
    return ranks;
}

std::vector<int> Grid::model_group(int rank) const {
    const int replica = coordinates(rank).data;
    std::vector<int> ranks;
    for (int p = 0; p < pipeline; ++p)
        for (int t = 0; t < tensor; ++t)
            ranks.push_back(this->rank({.tensor = t, .data = replica, .pipeline = p}));
    return ranks;
}

std::vector<int> Grid::embedding_group(int rank) const {
    const std::vector<int> stages = pipeline_group(rank);
    if (stages.size() == 1)
        return stages;
    return {stages.front(), stages.back()};
}

std::string Grid::text() const {
    return concat("TP ", tensor, " x PP ", pipeline, " x DP ", data);
}

} // namespace trireme::topology
