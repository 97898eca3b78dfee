// Chooses the parameters of a rank from the catalogue and lays them out in buckets.
#include "trireme/model/parameters.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "trireme/base/sizes.hpp"

namespace trireme::model {
namespace {

using catalogue::Owner;

// The chunk of this stage that holds the parameter, if any.
std::optional<int> holding_chunk(const ParameterSetup& setup, const catalogue::Parameter& parameter) {
    const int stage = setup.at.pipeline;
    const bool first = stage == 0, last = stage == setup.grid.pipeline - 1;
    const int last_chunk = setup.placement.chunks() - 1;
    switch (parameter.owner) {
    case Owner::embedding:
        return first ? std::optional(0) : std::nullopt;
    case Owner::tied:
        return first ? std::optional(0) : last ? std::optional(last_chunk) : std::nullopt;
    case Owner::head:
        return last ? std::optional(last_chunk) : std::nullopt;
    case Owner::layer:
        break;
    }
    const std::vector<topology::Interval>& chunks = setup.placement.layers[static_cast<std::size_t>(stage)];
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
        if (chunks[chunk].begin <= parameter.layer && parameter.layer < chunks[chunk].end)
            return static_cast<int>(chunk);
    return std::nullopt;
}

BucketKind kind_of(const catalogue::Parameter& parameter) {
    if (parameter.owner == Owner::tied)
        return BucketKind::tied;
    return parameter.split_axis >= 0 ? BucketKind::split : BucketKind::replicated;
}

// body(part) for a part of [0, count) on each of `threads` threads, this one included.
template <class Body>
void on_threads(int threads, std::int64_t count, const Body& body) {
    constexpr std::int64_t kLeast = 1 << 14; // elements worth a thread
    const auto parts = static_cast<int>(std::clamp<std::int64_t>(count / kLeast, 1, threads));
    const auto part = [&](int i) { return topology::Interval{count * i / parts, count * (i + 1) / parts}; };
    std::vector<std::jthread> others;
    for (int i = 1; i < parts; ++i)
        others.emplace_back([&body, range = part(i)] { body(range); });
    body(part(0));
}

} // namespace

Parameters::Parameters(const ParameterSetup& setup, memory::Plan& plan) : setup_(setup) {
    choose_held();
    fill_buckets();
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        const Shape flat{buckets_[i].elements};
        weight_items_.push_back(
            plan.add(memory::Category::weights, concat("weights of bucket ", i), flat, setup.weight_type));
        gradient_items_.push_back(plan.add(
            memory::Category::gradients, concat("main gradients of bucket ", i), flat, setup.gradient_type));
    }
}

void Parameters::choose_held() {
    const std::vector<topology::Interval>& here =
        setup_.placement.layers[static_cast<std::size_t>(setup_.at.pipeline)];
    for (catalogue::Parameter& parameter :
         catalogue::make_catalogue(setup_.config, setup_.grid.tensor, here)) {
        if (!holding_chunk(setup_, parameter))
            continue;
        HeldParameter held;
        held.shard = catalogue::shard(parameter, setup_.grid.tensor, setup_.at.tensor);
        held.role = parameter.owner == Owner::tied && setup_.at.pipeline > 0 ? Role::copy : Role::owner;
        held.parameter = std::move(parameter);
        held_.push_back(std::move(held));
    }
}

void Parameters::fill_buckets() {
    // Packs in reverse model order; [begin, end) of held_ for each.
    std::vector<std::pair<std::size_t, std::size_t>> packs;
    for (std::size_t i = 0; i < held_.size(); ++i) {
        if (i > 0 && held_[i].parameter.pack == held_[i - 1].parameter.pack)
            packs.back().second = i + 1;
        else
            packs.emplace_back(i, i + 1);
    }
    std::ranges::reverse(packs);

    std::unordered_map<int, std::size_t> open; // (chunk, kind) -> bucket being filled
    for (const auto& [begin, end] : packs) {
        const catalogue::Parameter& first = held_[begin].parameter;
        const BucketKind kind = kind_of(first);
        const int chunk = *holding_chunk(setup_, first);
        const int key = chunk * 4 + static_cast<int>(kind);
        const auto found = open.find(key);
        if (found == open.end() || buckets_[found->second].elements >= setup_.bucket_elements) {
            open[key] = buckets_.size();
            buckets_.push_back({kind, chunk, held_[begin].role, 0, {}});
        }
        const std::size_t number = open[key];
        Bucket& bucket = buckets_[number];
        std::int64_t position = round_up(bucket.elements, kAlignment);
        const std::int64_t pack_begin = position;
        for (std::size_t i = begin; i < end; ++i) {
            held_[i].bucket = static_cast<int>(number);
            held_[i].flat = {position, position + held_[i].shard.local.elements()};
            position = held_[i].flat.end;
            bucket.members.push_back(i);
        }
        bucket.elements = position;
        packs_[first.pack] = {static_cast<int>(number), {pack_begin, position}};
    }
    for (Bucket& bucket : buckets_)
        bucket.elements = round_up(bucket.elements, kAlignment * setup_.grid.data);
}

void Parameters::bind(const memory::Arena& arena) {
    for (const memory::Item item : weight_items_)
        weights_.push_back(arena.tensor(item));
    for (const memory::Item item : gradient_items_)
        gradients_.push_back(arena.tensor(item));
}

void Parameters::initialise(std::uint64_t seed, backend::Backend& backend, int threads,
                            const std::function<void(const DrawnPart&)>& drawn) {
    if (setup_.weight_type == DType::f64)
        initialise_as<double, double>(seed, backend, threads, drawn);
    else if (setup_.weight_type == DType::bf16)
        initialise_as<float, BFloat16>(seed, backend, threads, drawn);
    else if (setup_.weight_type == DType::f16)
        initialise_as<float, Float16>(seed, backend, threads, drawn);
    else
        initialise_as<float, float>(seed, backend, threads, drawn);
}

// Piece by piece, so that host memory stays small: values are drawn as `Drawn` and kept as `Kept`.
template <class Drawn, class Kept>
void Parameters::initialise_as(std::uint64_t seed, backend::Backend& backend, int threads,
                               const std::function<void(const DrawnPart&)>& drawn) {
    constexpr std::int64_t kPieceElements = std::int64_t{1} << 22;
    constexpr bool kSplits = std::is_same_v<Kept, BFloat16>;
    std::vector<Drawn> values;
    std::vector<Kept> kept;
    std::vector<std::int16_t> rest;
    for (const HeldParameter& held : held_) {
        const std::int64_t all = held.shard.local.elements();
        for (std::int64_t begin = 0; begin < all; begin += kPieceElements) {
            const std::int64_t count = std::min(kPieceElements, all - begin);
            const Shape shape{count};
            values.resize(static_cast<std::size_t>(count));
            kept.resize(values.size());
            rest.resize(kSplits ? values.size() : 0);
            on_threads(threads, count, [&](topology::Interval part) {
                const auto first = static_cast<std::size_t>(part.begin),
                           size = static_cast<std::size_t>(part.size());
                catalogue::initialise(held.parameter, held.shard, seed,
                                      {begin + part.begin, begin + part.end},
                                      Tensor(std::span(values).subspan(first, size), Shape{part.size()}));
                for (std::size_t k = first; k < first + size; ++k) {
                    if constexpr (kSplits) {
                        const SplitFloat split(values[k]);
                        kept[k] = split.high;
                        rest[k] = split.rest;
                    } else {
                        kept[k] = static_cast<Kept>(values[k]);
                    }
                }
            });
            backend.copy_to_device(Tensor(std::span(kept), shape), weight(held).flat(begin, count));
            if (drawn)
                drawn({held, begin, Tensor(std::span(values), shape),
                       kSplits ? Tensor(std::span(rest), shape) : Tensor{}});
        }
    }
}

const Parameters::Pack& Parameters::pack(std::string_view name) const {
    const auto found = packs_.find(std::string(name));
    TRIREME_ASSERT(found != packs_.end(), "this rank holds no parameter ", name);
    return found->second;
}

Tensor Parameters::weight(std::string_view name) const {
    const Pack& found = pack(name);
    return weights_[static_cast<std::size_t>(found.bucket)].flat(found.flat.begin, found.flat.size());
}

Tensor Parameters::gradient(std::string_view name) const {
    const Pack& found = pack(name);
    return gradients_[static_cast<std::size_t>(found.bucket)].flat(found.flat.begin, found.flat.size());
}

Tensor Parameters::weight(const HeldParameter& held) const {
    return weights_[static_cast<std::size_t>(held.bucket)]
        .flat(held.flat.begin, held.flat.size())
        .reshaped(held.shard.local);
}

Tensor Parameters::gradient(const HeldParameter& held) const {
    return gradients_[static_cast<std::size_t>(held.bucket)]
        .flat(held.flat.begin, held.flat.size())
        .reshaped(held.shard.local);
}

std::int64_t Parameters::local_elements() const {
    std::int64_t sum = 0;
    for (const HeldParameter& held : held_)
        sum += held.shard.local.elements();
    return sum;
}

} // namespace trireme::model
