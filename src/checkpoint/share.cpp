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
    if (rows.empty())
        return share;
    share.tensor = part.tensor.flat(rows.begin * row, rows.size() * row);
    if (part.rest.defined())
        share.rest = part.rest.flat(rows.begin * row, rows.size() * row);
    return share;
}

} // namespace

void Elements::copy(const Piece& piece, std::span<std::byte> host) {
    const Shape flat{piece.tensor.elements()};
    if (!piece.rest.defined())
        return backend_.copy_to_host(piece.tensor, Tensor(host.data(), flat, piece.tensor.type()));
    const auto count = static_cast<std::size_t>(piece.tensor.elements());
    halves_.resize(std::max(halves_.size(), 2 * count * sizeof(std::int16_t)));
    const Tensor high(halves_.data(), flat, DType::bf16),
        rest(halves_.data() + count * sizeof(BFloat16), flat, DType::i16),
        whole(host.data(), flat, DType::f32);
    backend_.copy_to_host(piece.tensor, high);
    backend_.copy_to_host(piece.rest, rest);
    for (std::size_t i = 0; i < count; ++i)
        whole.values<float>()[i] =
            static_cast<float>(SplitFloat(high.values<BFloat16>()[i], rest.values<std::int16_t>()[i]));
}

std::span<const std::byte> Elements::on_host(const Piece& piece) {
    const auto bytes = static_cast<std::size_t>(piece.bytes());
    if (backend_.device() == backend::Device::cpu && !piece.rest.defined())
        return {static_cast<const std::byte*>(piece.tensor.data()), bytes};
    staging_.resize(std::max(staging_.size(), bytes));
    copy(piece, std::span(staging_).first(bytes));
    return std::span(staging_).first(bytes);
}

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
            const std::int64_t limit = std::max<std::int64_t>(1, piece_bytes / size_bytes(part.type()));
            for (storage::BoxPiece& piece : storage::cut(share.box, limit)) {
                const auto of = [&](const Tensor& whole) {
                    return whole.defined() ? whole.flat(piece.first, piece.box.elements()) : Tensor{};
                };
                const Tensor tensor = of(share.tensor), rest = of(share.rest);
                pieces.push_back({slot, std::move(piece.box), tensor, rest});
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
