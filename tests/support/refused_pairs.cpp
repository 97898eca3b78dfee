// The rules, each with the values that it concerns.
#include "support/refused_pairs.hpp"

#include <algorithm>

#include "trireme/base/error.hpp"

namespace trireme::test {
namespace {

// Each of `values` with each of `others`; kAny: of all but the first value, which says nothing.
struct Rule {
    std::string factor;
    std::vector<std::string> values;
    std::string other;
    std::vector<std::string> others;
};
const std::vector<std::string> kAny;

const std::string kFirst = "--decoder-first-pipeline-num-layers 1",
                  kLast = "--decoder-last-pipeline-num-layers 1",
                  kEmbedding = "--account-for-embedding-in-pipeline-split",
                  kLoss = "--account-for-loss-in-pipeline-split",
                  kAuto = "--pipeline-model-parallel-layout auto",
                  kOneLayer = "--num-layers-per-virtual-pipeline-stage 1",
                  kTwoLayers = "--num-layers-per-virtual-pipeline-stage 2",
                  kTwoChunks = "--num-virtual-stages-per-pipeline-rank 2";

const std::vector<Rule>& rules() {
    static const std::vector<Rule> all{
        // One stage has no chunks to interleave, and no first or last one beside others.
        {"pipeline", {""}, "chunks", kAny},
        {"pipeline", {""}, "split", {kFirst, kLast}},
        // 5, 6 or 9 layers and what counts as one do not make 4 equal stages.
        {"pipeline", {"--pipeline-model-parallel-size 4"}, "split", {kEmbedding, kLoss}},
        // 12 samples are no whole micro-batches of 2 on 4 data ranks.
        {"data", {"4"}, "micro-batch", {"--micro-batch-size 2"}},
        // Interleaving is a schedule of its own.
        {"chunks", kAny, "schedule", {"--pipeline-schedule gpipe", "--pipeline-schedule zb-h1"}},
        // Chunks of one size leave no stage of another size; one layer makes no two chunks.
        {"chunks", kAny, "split", {kFirst, kLast}},
        // A layout says the layers of a chunk itself.
        {"chunks", {kOneLayer, kTwoLayers}, "split", {kAuto}},
        // 5, 6 or 9 layers do not make 4 or 8 equal chunks, 5 not even without what counts as one.
        {"chunks", {kTwoLayers, kTwoChunks}, "split", {kEmbedding, kLoss}},
        {"chunks", {kTwoLayers}, "layers", {"--num-layers 5"}},
        // Activations are kept until the delayed weight gradients.
        {"schedule", {"--pipeline-schedule zb-h1"}, "recompute", kAny},
        // Parameters are gathered where optimizer state is sharded, beside overlapped gradients.
        {"ZeRO-1", {""}, "gather", kAny},
        {"reduction", {""}, "gather", kAny},
        // There are no positions to restart.
        {"positions", {"--position-embedding-type none"}, "position ids", kAny},
    };
    return all;
}

int factor_of(const std::string& name) {
    const auto found = std::ranges::find(factors(), name, &Factor::name);
    TRIREME_ASSERT(found != factors().end(), concat("no factor ", name));
    return static_cast<int>(found - factors().begin());
}

std::vector<Choice> choices(const std::string& name, const std::vector<std::string>& values) {
    const int factor = factor_of(name);
    const std::vector<std::string>& all = factors()[static_cast<std::size_t>(factor)].values;
    std::vector<Choice> result;
    for (const std::string& value : values) {
        const auto found = std::ranges::find(all, value);
        TRIREME_ASSERT(found != all.end(), concat("no value ", value, " of ", name));
        result.push_back({factor, static_cast<int>(found - all.begin())});
    }
    for (int value = 1; values.empty() && value < static_cast<int>(all.size()); ++value)
        result.push_back({factor, value});
    return result;
}

} // namespace

std::vector<Pair> pairs_refused() {
    std::vector<Pair> result;
    for (const Rule& rule : rules())
        for (const Choice& a : choices(rule.factor, rule.values))
            for (const Choice& b : choices(rule.other, rule.others))
                result.push_back(a.factor < b.factor ? Pair{a, b} : Pair{b, a});
    return result;
}

std::vector<Pair> pairs_of_more_ranks(int most) {
    std::vector<Pair> result;
    const auto of_ranks = [](const std::string& factor) { return choices(factor, kAny); };
    for (const auto& [first, second] :
         {std::pair("tensor", "pipeline"), {"tensor", "data"}, {"pipeline", "data"}})
        for (const Choice& a : of_ranks(first))
            for (const Choice& b : of_ranks(second)) {
                Case of(factors().size());
                of[static_cast<std::size_t>(a.factor)] = a.value;
                of[static_cast<std::size_t>(b.factor)] = b.value;
                if (ranks_of(of) > most)
                    result.push_back({a, b});
            }
    return result;
}

} // namespace trireme::test
