// Sharing out the state among the ranks that hold it.
#include "share.hpp"

#include <algorithm>

#include "names.hpp"
#include "trireme/storage/pieces.hpp"

namespace trireme::checkpoint {
namespace {

// Holder `index` of `holders` that all hold `part` takes these rows of it. Example: 5 rows, 2 holders ->
// [0,3), [3,5).
optimizer::StatePart rows_of(const optimizer::StatePart& part, int holders, int index) {
    const topology::Interval axis = part.box.axes.front();
    const topology::Interval rows = topology::part(axis.size(), axis.size(), holders, index);
    const std::int64_t row = part.box.elements() / axis.size();
    optimizer::StatePart share = part;
    share.box.axes.front() = {axis.begin + rows.begin, axis.begin + rows.end};
    if (!rows.empty())
        share.tensor = part.tensor.flat(rows.begin * row, rows.size() * row);
    return share;
}

} // namespace

std::vector<Piece> share_of_this_rank(const Model& model, const Contents& contents,
                                      std::int64_t piece_bytes) {
    const comm::ProcessGroups& groups = *model.groups;
    std::vector<Piece> pieces;
    const auto add = [&](const std::string& group, const model::HeldParameter& held,
                         const std::vector<optimizer::StatePart>& parts, bool on_all_data_ranks) {
        const int tensor_holders = held.shard.holders;
        const int data_holders = on_all_data_ranks ? groups.grid.data : 1;
        const int index = held.shard.holder * data_holders + (data_holders > 1 ? groups.at.data : 0);
        const std::size_t slot = contents.slot(contents.find_group(group).value(),
                                               contents.find_tensor(held.parameter.name).value());
        for (const optimizer::StatePart& part : parts) {
            const optimizer::StatePart share = rows_of(part, tensor_holders * data_holders, index);
            const std::int64_t limit =
                std::max<std::int64_t>(1, piece_bytes / size_bytes(part.tensor.type()));
            for (storage::BoxPiece& piece : storage::cut(share.box, limit)) {
                const Tensor tensor = share.tensor.flat(piece.first, piece.box.elements());
                pieces.push_back({slot, std::move(piece.box), tensor});
            }
        }
    };
    for (const model::HeldParameter& held : model.parameters->held()) {
        if (held.role == model::Role::copy)
            continue;
        if (const topology::Box& box = held.shard.box; !box.empty()) // padding rows come last
            add(kParameters, held, {{box, model.parameters->weight(held).flat(0, box.elements())}}, true);
        for (const optimizer::StateKind kind : optimizer::kAllStateKinds)
            if (model.optimizer != nullptr && model.optimizer->has(kind))
                add(group_of(kind), held, model.optimizer->parts(held, kind), !model.optimizer->sharded());
    }
    std::ranges::stable_sort(pieces, {}, &Piece::slot);
    return pieces;
}

} // namespace trireme::checkpoint
