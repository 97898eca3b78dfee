// The lines as people read them.
#include "trireme/plan/screen.hpp"

#include <array>
#include <cstdio>
#include <set>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/plan/balance.hpp"

namespace trireme::plan {
namespace {

std::string show_parameters(double count) {
    return count >= 1e9 ? fixed(count / 1e9, 2) + "B" : fixed(count / 1e6, 2) + "M";
}

// What the shape has that GPT-2's has not: ", rope, RMSNorm, SwiGLU, 2 query groups, untied output"; "" for
// GPT-2's.
std::string shape_words(const catalogue::ModelConfig& config) {
    std::string words;
    if (config.positions == catalogue::Positions::rotary)
        words +=
            config.rotary.scaling ? concat(", rope scaled by ", config.rotary.scaling->factor) : ", rope";
    if (config.positions == catalogue::Positions::none)
        words += ", no position embedding";
    if (config.normalisation == catalogue::Normalisation::rms_norm)
        words += ", RMSNorm";
    if (config.activation == catalogue::Activation::swiglu)
        words += ", SwiGLU";
    if (config.groups != config.heads)
        words += concat(", ", config.groups, config.groups == 1 ? " query group" : " query groups");
    if (config.output_layer == catalogue::OutputLayer::own)
        words += ", untied output";
    if (config.biases == catalogue::Biases::none)
        words += ", no biases";
    if (config.biases == catalogue::Biases::query_key_value)
        words += ", biases of query, key and value alone";
    return words;
}

} // namespace

std::string fixed(double value, int decimals) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return text.data();
}

std::string screen_row(const char* title, const std::string& text) {
    std::array<char, 16> name{};
    std::snprintf(name.data(), name.size(), "%-10s", title);
    return concat(name.data(), text, "\n");
}

std::string layout_words(const RunSetup& setup, const topology::Schedule& schedule) {
    std::string text = setup.grid.text();
    if (setup.grid.pipeline > 1) {
        const topology::Timeline timeline = topology::simulate(schedule, relative_costs(setup));
        text += concat(", ", topology::name(schedule.kind), " with ", schedule.micro_batches,
                       " micro-batches, bubble ", fixed(100 * timeline.bubble, 1), " %");
    }
    return text;
}

std::string model_row(const RunSetup& setup, const topology::Placement& placement) {
    std::string layers;
    const int pieces = placement.stages() * placement.chunks();
    std::set<std::int64_t> sizes;
    for (const std::vector<topology::Interval>& stage : placement.layers)
        for (const topology::Interval& chunk : stage)
            sizes.insert(chunk.size());
    if (pieces > 4 && sizes.size() == 1) {
        layers = concat(" (", pieces, " x ", *sizes.begin(), ")");
    } else if (setup.grid.pipeline > 1) {
        for (const std::vector<topology::Interval>& stage : placement.layers) {
            std::string chunks;
            for (const topology::Interval& chunk : stage)
                chunks += concat(chunks.empty() ? "" : " and ", chunk.size());
            layers +=
                concat(layers.empty() ? " (" : " + ", stage.size() > 1 ? concat("[", chunks, "]") : chunks);
        }
        layers += ")";
    }
    return screen_row("model",
                      concat("GPT ", setup.model.layers, " layers", layers, ", hidden ", setup.model.hidden,
                             ", ", setup.model.heads, " heads, sequence ", setup.model.sequence,
                             ", vocabulary ", setup.model.vocabulary, " (padded to ",
                             catalogue::padded_vocabulary(setup.model, setup.grid.tensor), ")",
                             shape_words(setup.model), ", ", name(setup.type)));
}

std::string parameters_row(const RunSetup& setup, double most_of_stage, double most_of_rank) {
    return screen_row("",
                      concat("number of parameters: ",
                             show_parameters(static_cast<double>(catalogue::parameter_count(setup.model))),
                             " | per pipeline rank: ", show_parameters(most_of_stage),
                             " | per tensor rank: ", show_parameters(most_of_rank)));
}

std::string memory_words(std::span<const std::int64_t> bytes) {
    std::string words;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] > 0)
            words += concat(words.empty() ? "" : ", ", name(static_cast<memory::Category>(i)), " ",
                            show_bytes(bytes[i]));
    return words;
}

} // namespace trireme::plan
