// Rules of layers over pipeline stages and model chunks. Whether a split is possible says topology; here
// stands which options say it and which of them go together.
#include <algorithm>
#include <vector>

#include "options/checker.hpp"
#include "options/pipeline_split.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr std::string_view kLayers = "num-layers";
constexpr std::string_view kPp = "pipeline-model-parallel-size";
constexpr std::string_view kSchedule = "pipeline-schedule";
constexpr std::string_view kPerChunk = "num-layers-per-virtual-pipeline-stage";
constexpr std::string_view kChunks = "num-virtual-stages-per-pipeline-rank";
constexpr std::string_view kFirst = "decoder-first-pipeline-num-layers";
constexpr std::string_view kLast = "decoder-last-pipeline-num-layers";
constexpr std::string_view kEmbedding = "account-for-embedding-in-pipeline-split";
constexpr std::string_view kLoss = "account-for-loss-in-pipeline-split";
constexpr std::string_view kLayout = "pipeline-model-parallel-layout";
constexpr std::int64_t kMostStages = std::int64_t{1} << 20; // more are no layout that could be looked at

std::int64_t counted_layers(const Values& v) {
    return *v.num_layers + v.account_for_embedding_in_pipeline_split + v.account_for_loss_in_pipeline_split;
}

// Options that exclude each other; returns whether two were found.
bool check_pairs(Checker& check) {
    const auto both = [&](std::string_view a, std::string_view b, std::string what, std::string attempt) {
        if (!check.given(a) || !check.given(b))
            return false;
        check.complain(std::move(what), {a, b}, std::move(attempt));
        return true;
    };
    const bool balanced = check.values.pipeline_model_parallel_layout == "auto";
    if (both(kPerChunk, kChunks, "the chunks of a stage are said twice", "leave out one of the two") ||
        both(kPerChunk, kLayout, "a layout says the layers of each chunk",
             concat("leave --", kPerChunk, " out; beside auto --", kChunks,
                    " says how many chunks there are")))
        return true;
    if (!balanced && both(kChunks, kLayout, "a layout says how many chunks there are",
                          concat("leave --", kChunks, " out")))
        return true;
    for (const std::string_view stage : {kFirst, kLast})
        if (both(kPerChunk, stage, "chunks of one size leave stages of one size",
                 concat("--", kChunks, " in place of --", kPerChunk)) ||
            both(kLayout, stage, "a layout says the layers of each stage", "leave out one of the two") ||
            both(kEmbedding, stage, "the embedding counts as a layer in an even split only",
                 "leave out one of the two") ||
            both(kLoss, stage, "output layer and loss count as a layer in an even split only",
                 "leave out one of the two"))
            return true;
    for (const std::string_view counted : {kEmbedding, kLoss})
        if (both(kLayout, counted, "a layout says the layers of each stage", "leave out one of the two"))
            return true;
    return false;
}

// Of interleaved 1F1B; returns whether something was found.
bool check_chunks(Checker& check, const AskedSplit& asked) {
    const Values& v = check.values;
    const std::string_view said = v.num_layers_per_virtual_pipeline_stage  ? kPerChunk
                                  : v.num_virtual_stages_per_pipeline_rank ? kChunks
                                                                           : kLayout;
    const std::int64_t pp = v.pipeline_model_parallel_size;
    const auto refuse = [&](std::string what, std::initializer_list<std::string_view> names,
                            std::string attempt) {
        check.complain(std::move(what), names, std::move(attempt));
        return true;
    };
    if (asked.chunks == 1 && said != kPerChunk)
        return false;
    if (pp < 2)
        return refuse("interleaving needs at least 2 pipeline stages", {said, kPp},
                      concat("--", kPp, " 2, or leave --", said, " out"));
    if (said == kPerChunk) {
        const std::int64_t chunk = *v.num_layers_per_virtual_pipeline_stage, counted = counted_layers(v);
        const bool comparable = chunk <= *v.num_layers && pp <= *v.num_layers;
        if (!comparable || counted % (pp * chunk) != 0) {
            const std::int64_t ends = counted - *v.num_layers;
            const std::int64_t lower = comparable ? counted / (pp * chunk) * (pp * chunk) - ends : 0;
            std::string attempt = concat("a smaller --", kPerChunk);
            if (comparable)
                attempt = concat("--num-layers ", lower > 0 ? concat(lower, " or ") : "",
                                 std::max<std::int64_t>(lower, -ends) + pp * chunk);
            return refuse(concat(*v.num_layers, " layers", ends > 0 ? " and what counts as one" : "",
                                 " do not make whole chunks of ", chunk, " on ", pp, " stages"),
                          {kLayers, kPerChunk, kPp}, std::move(attempt));
        }
    }
    if (v.pipeline_schedule != "1f1b")
        return refuse(concat("model chunks are run by interleaved 1F1B, not by ", v.pipeline_schedule),
                      {said, kSchedule}, "leave out one of the two");
    return false;
}

} // namespace

AskedSplit read_split(const Values& v) {
    using topology::TakesPlace;
    AskedSplit asked;
    asked.split.first_stage = v.decoder_first_pipeline_num_layers.value_or(0);
    asked.split.last_stage = v.decoder_last_pipeline_num_layers.value_or(0);
    if (v.account_for_embedding_in_pipeline_split)
        asked.split.embedding = TakesPlace::yes;
    if (v.account_for_loss_in_pipeline_split)
        asked.split.head = TakesPlace::yes;
    const std::int64_t stages = v.pipeline_model_parallel_size;
    asked.chunks = v.num_virtual_stages_per_pipeline_rank.value_or(1);
    if (v.num_layers_per_virtual_pipeline_stage)
        asked.chunks =
            std::max<std::int64_t>(1, counted_layers(v) / stages / *v.num_layers_per_virtual_pipeline_stage);
    if (v.pipeline_model_parallel_layout == "auto") {
        asked.layers = LayerSplit::balanced;
    } else if (v.pipeline_model_parallel_layout) {
        topology::LayoutText layout = topology::read_layout(*v.pipeline_model_parallel_layout);
        const auto pieces = static_cast<std::int64_t>(layout.pieces.size());
        if (pieces % stages == 0 && pieces > 0)
            asked.chunks = pieces / stages;
        asked.split.pieces = std::move(layout.pieces);
        asked.wrong = std::move(layout.wrong);
    }
    return asked;
}

void check_split(Checker& check) {
    Values& v = check.values;
    // Whatever a file shared with a training says of several stages.
    if ((check.command == Command::evaluate || check.command == Command::generate) &&
        v.pipeline_model_parallel_size == 1) {
        v.decoder_first_pipeline_num_layers = v.decoder_last_pipeline_num_layers = std::nullopt;
        v.account_for_embedding_in_pipeline_split = v.account_for_loss_in_pipeline_split = false;
        v.pipeline_model_parallel_layout = std::nullopt;
        return;
    }
    if (!v.num_layers || !check.sound({kLayers, kPp, kSchedule, kPerChunk, kChunks, kFirst, kLast, kEmbedding,
                                       kLoss, kLayout}))
        return;
    if (check_pairs(check))
        return;
    const AskedSplit asked = read_split(v);
    if (!asked.wrong.empty())
        return check.complain(
            concat("a pipeline layout: ", asked.wrong), {kLayout},
            "auto, or a layout like 'Et*3|(tt|)*2t|L': E embedding, t layer, L output layer "
            "and loss, | next stage");
    if (check_chunks(check, asked))
        return;
    const std::int64_t pp = v.pipeline_model_parallel_size;
    if (pp > kMostStages || asked.chunks > kMostStages / pp)
        return check.complain("there are more pipeline stages than could be filled", {kPp, kChunks});
    const int stages = static_cast<int>(pp), chunks = static_cast<int>(asked.chunks);
    if (asked.layers == LayerSplit::balanced) {
        if (*v.num_layers < pp * chunks - 2)
            check.complain(
                concat(*v.num_layers, " layers do not fill ", topology::describe_stages(pp, chunks),
                       ": each without embedding or output layer needs one"),
                {kLayers, kPp, kLayout},
                chunks > 1 ? "fewer stages or model chunks" : concat("--", kPp, " ", *v.num_layers));
        return;
    }
    const auto problem = topology::problem_of(*v.num_layers, stages, chunks, asked.split);
    if (!problem)
        return;
    if (check.given(kFirst) || check.given(kLast))
        check.complain(problem->what, {kLayers, kPp, kFirst, kLast}, problem->attempt);
    else if (check.given(kEmbedding) || check.given(kLoss))
        check.complain(problem->what, {kLayers, kPp, kEmbedding, kLoss}, problem->attempt);
    else if (check.given(kLayout))
        check.complain(problem->what, {kLayers, kPp, kLayout}, problem->attempt);
    else if (chunks > 1)
        check.complain(problem->what, {kLayers, kPp, kChunks}, problem->attempt);
    else
        check.complain(problem->what, {kLayers, kPp}, concat("--", kPp, " ", *v.num_layers));
}

} // namespace trireme::options
