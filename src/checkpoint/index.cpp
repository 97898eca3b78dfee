// Writes and reads checkpoint.h5.
#include "index.hpp"

#include <array>
#include <charconv>
#include <sstream>

#include "names.hpp"
#include "trireme/base/build_info.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {
namespace {

// A line a tensor: name, stage, extents, separated by blanks.
std::string to_table(const std::vector<TensorEntry>& tensors) {
    std::string text;
    for (const TensorEntry& tensor : tensors) {
        text += concat(tensor.name, " ", tensor.stage);
        for (const std::int64_t extent : tensor.shape)
            text += concat(" ", extent);
        text += "\n";
    }
    return text;
}

// "65536 12 2": the scale in full, good steps, overflows left.
std::string to_text(const optimizer::LossScale::State& state) {
    std::array<char, 32> scale{};
    const auto end = std::to_chars(scale.data(), scale.data() + scale.size(), state.scale).ptr;
    return concat(std::string_view(scale.data(), static_cast<std::size_t>(end - scale.data())), " ",
                  state.good_steps, " ", state.overflows_left);
}
optimizer::LossScale::State loss_scale_from(const std::filesystem::path& checkpoint,
                                            const std::string& text) {
    std::istringstream fields(text);
    optimizer::LossScale::State state;
    if (!(fields >> state.scale >> state.good_steps >> state.overflows_left))
        throw Error(ErrorCategory::checkpoint, concat(checkpoint.string(), ": the loss scale is damaged"),
                    {concat("'", text, "'")});
    return state;
}

storage::File open_index(const std::filesystem::path& checkpoint) {
    storage::File file = storage::File::open_alone(checkpoint / kIndexFile);
    const std::int64_t version = file.read_integer("/format_version");
    if (version > kFormatVersion)
        throw Error(ErrorCategory::checkpoint,
                    concat(checkpoint.string(), " has format version ", version,
                           ", this program reads up to ", kFormatVersion),
                    {concat("written by ", file.read_text("/program")),
                     "try: that version of trireme or a later one"});
    return file;
}

} // namespace

void write_index(const std::filesystem::path& checkpoint, const State& state,
                 const std::vector<TensorEntry>& tensors) {
    storage::File file = storage::File::create_alone(checkpoint / kIndexFile);
    file.write_integer("/format_version", kFormatVersion);
    file.write_text("/program", concat("trireme ", build_info().version, " (", build_info().commit, ")"));
    file.write_text("/options", state.options);
    file.write_text("/layout", state.layout);
    file.write_text("/tensors", to_table(tensors));
    file.write_integer("/counters/iteration", state.iteration);
    file.write_integer("/counters/consumed_samples", state.consumed_samples);
    file.write_integer("/counters/scheduled_samples", state.scheduled_samples);
    file.write_integer("/counters/optimizer_steps", state.optimizer_steps);
    file.write_integer("/counters/seed", static_cast<std::int64_t>(state.seed));
    file.write_integer("/counters/skipped_iterations", state.skipped_iterations);
    file.write_integer("/counters/nan_iterations", state.nan_iterations);
    file.write_text("/rates", state.rates);
    if (state.loss_scale)
        file.write_text("/loss_scale", to_text(*state.loss_scale));
    file.write_integer("/has_optimizer", state.has_optimizer ? 1 : 0);
    file.write_integer("/has_master_weights", state.has_master_weights ? 1 : 0);
    const auto link = [&](const char* group) {
        for (const TensorEntry& tensor : tensors)
            file.link(group + tensor.name, stage_name(tensor.stage), group + tensor.name);
    };
    link(kParameters);
    for (const char* group : kStateGroups)
        if (state.has_optimizer &&
            (state.has_master_weights || group != group_of(optimizer::StateKind::master_weights)))
            link(group);
    file.close();
}

State read_index_state(const std::filesystem::path& checkpoint) {
    const storage::File file = open_index(checkpoint);
    State state;
    state.options = file.read_text("/options");
    state.layout = file.read_text("/layout");
    state.iteration = file.read_integer("/counters/iteration");
    state.consumed_samples = file.read_integer("/counters/consumed_samples");
    state.scheduled_samples = file.read_integer("/counters/scheduled_samples");
    state.optimizer_steps = file.read_integer("/counters/optimizer_steps");
    state.seed = static_cast<std::uint64_t>(file.read_integer("/counters/seed"));
    // Checkpoints of the first version lack these.
    if (file.has("/counters/skipped_iterations"))
        state.skipped_iterations = file.read_integer("/counters/skipped_iterations");
    if (file.has("/counters/nan_iterations"))
        state.nan_iterations = file.read_integer("/counters/nan_iterations");
    if (file.has("/rates"))
        state.rates = file.read_text("/rates");
    if (file.has("/loss_scale"))
        state.loss_scale = loss_scale_from(checkpoint, file.read_text("/loss_scale"));
    state.has_optimizer = file.read_integer("/has_optimizer") != 0;
    state.has_master_weights = file.read_integer("/has_master_weights") != 0;
    return state;
}

std::map<std::string, TensorEntry> read_index_tensors(const std::filesystem::path& checkpoint) {
    std::map<std::string, TensorEntry> tensors;
    std::istringstream table(open_index(checkpoint).read_text("/tensors"));
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        TensorEntry tensor;
        if (!(fields >> tensor.name >> tensor.stage))
            throw Error(ErrorCategory::checkpoint,
                        concat(checkpoint.string(), ": the table of tensors has a damaged line"),
                        {concat("'", line, "'")});
        for (std::int64_t extent = 0; fields >> extent;)
            tensor.shape.push_back(extent);
        tensors[tensor.name] = tensor;
    }
    return tensors;
}

} // namespace trireme::checkpoint
