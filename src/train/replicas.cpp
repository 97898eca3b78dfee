// Every rank hashes each box of a logical tensor that it holds; all compare those of equal name and box. What
// one rank alone holds has nobody to differ from, so the layout need not be known here.
#include "replicas.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "trireme/base/hash.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::train {
namespace {

struct Entry {
    std::uint64_t key;  // of what it is: name and box
    std::uint64_t bits; // of what it holds
};

class Hasher {
  public:
    explicit Hasher(backend::Backend& backend) : backend_(backend) {}
    std::uint64_t bits(const Tensor& tensor) {
        bytes_.resize(static_cast<std::size_t>(tensor.bytes()));
        backend_.copy_to_host(tensor, Tensor(bytes_.data(), tensor.shape(), tensor.type()));
        return hash_bytes(bytes_);
    }

  private:
    backend::Backend& backend_;
    std::string bytes_;
};

// visit(what it is, tensor) for all that this rank holds; padding is left out.
template <class Visit>
void for_each_box(Engine& engine, const Visit& visit) {
    constexpr const char* kNames[] = {"master weights", "first moment", "second moment"};
    const optimizer::Optimizer& optimizer = engine.optimizer();
    model::Parameters& parameters = engine.parameters();
    for (const model::HeldParameter& held : parameters.held()) {
        const topology::Box& box = held.shard.box;
        if (!box.empty())
            visit(concat(held.parameter.name, " (weights, ", box.text(), ")"),
                  parameters.weight(held).flat(0, box.elements()));
        for (const optimizer::StateKind kind : optimizer::kAllStateKinds)
            if (optimizer.has(kind))
                for (const optimizer::StatePart& part : optimizer.parts(held, kind))
                    visit(concat(held.parameter.name, " (", kNames[static_cast<std::size_t>(kind)], ", ",
                                 part.box.text(), ")"),
                          part.rest.defined() ? part.rest : part.tensor); // the rest beside the weights above
    }
}

// "ranks 0, 1, 3 hold 4f8a..., rank 2 holds 91c0..."
std::string who_holds_what(const std::map<std::uint64_t, std::vector<std::size_t>>& ranks_of) {
    std::string text;
    for (const auto& [bits, ranks] : ranks_of) {
        text += concat(text.empty() ? "" : ", ", ranks.size() == 1 ? "rank " : "ranks ");
        for (std::size_t i = 0; i < ranks.size(); ++i)
            text += concat(i == 0 ? "" : ", ", ranks[i]);
        char hash[20];
        std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(bits));
        text += concat(ranks.size() == 1 ? " holds " : " hold ", hash);
    }
    return text;
}

} // namespace

void check_replicas(Engine& engine, backend::Backend& backend, std::int64_t iteration) {
    const comm::PhaseScope phase("comparison of replicas");
    comm::HostGroup& world = *engine.groups().world;
    Hasher hasher(backend);
    std::vector<Entry> mine;
    std::vector<std::string> names;
    for_each_box(engine, [&](std::string name, const Tensor& tensor) {
        mine.push_back({hash_bytes(name), hasher.bits(tensor)});
        names.push_back(std::move(name));
    });
    std::string packed(mine.size() * sizeof(Entry), '\0');
    std::memcpy(packed.data(), mine.data(), packed.size());
    const std::vector<std::string> all = world.all_gather(packed);
    comm::agree(world, [&] {
        std::map<std::uint64_t, std::map<std::uint64_t, std::vector<std::size_t>>>
            holders; // key, bits, ranks
        for (std::size_t rank = 0; rank < all.size(); ++rank)
            for (std::size_t at = 0; at < all[rank].size(); at += sizeof(Entry)) {
                Entry entry{};
                std::memcpy(&entry, all[rank].data() + at, sizeof entry);
                holders[entry.key][entry.bits].push_back(rank);
            }
        std::size_t differing = 0, first = mine.size();
        for (std::size_t i = 0; i < mine.size(); ++i)
            if (holders[mine[i].key].size() > 1) {
                ++differing;
                first = std::min(first, i);
            }
        if (differing == 0)
            return;
        throw Error(ErrorCategory::communication,
                    concat("replicas of ", names[first], " differ after iteration ", iteration),
                    {concat("by hash: ", who_holds_what(holders[mine[first].key])),
                     concat(differing, differing == 1 ? " tensor differs" : " tensors differ",
                            " of those that this rank holds; nothing was saved after this step"),
                     "try: resume from the last checkpoint without the node that stands alone: its memory or "
                     "network may be faulty; if it happens again with other ranks, report it"});
    });
}

} // namespace trireme::train
