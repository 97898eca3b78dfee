// Finds and loads checkpoints. Each rank opens the stage files that hold what it needs and reads its own
// boxes.
#include <charconv>
#include <functional>
#include <map>

#include "index.hpp"
#include "names.hpp"
#include "trireme/base/file.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

std::int64_t parse_marker(const fs::path& marker) {
    std::string text = read_file(marker, ErrorCategory::checkpoint);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    std::int64_t iteration = -1;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), iteration);
    if (failure != std::errc{} || end != text.data() + text.size() || iteration < 0)
        throw Error(ErrorCategory::checkpoint, concat(marker.string(), " holds no iteration number"),
                    {concat("it says '", text.substr(0, 60), "'"),
                     "try: write the number of an iter_NNNNNNN directory beside it into the file"});
    return iteration;
}

// Opens stage files once each, on first use.
class StageFiles {
  public:
    explicit StageFiles(fs::path checkpoint) : checkpoint_(std::move(checkpoint)) {}
    storage::File& operator[](std::int64_t stage) {
        auto found = files_.find(stage);
        if (found == files_.end())
            found = files_.emplace(stage, storage::File::open_alone(checkpoint_ / stage_name(stage))).first;
        return found->second;
    }

  private:
    fs::path checkpoint_;
    std::map<std::int64_t, storage::File> files_;
};

void check_shapes(const fs::path& checkpoint, const std::map<std::string, TensorEntry>& tensors,
                  const model::ParameterSetup& setup) {
    std::vector<std::string> wrong;
    const std::vector<catalogue::Parameter> wanted =
        catalogue::make_catalogue(setup.config, setup.grid.tensor);
    for (const catalogue::Parameter& parameter : wanted) {
        const auto found = tensors.find(parameter.name);
        if (found == tensors.end())
            wrong.push_back(concat(parameter.name, ": not in the checkpoint"));
        else if (found->second.shape != parameter.shape)
            wrong.push_back(concat(parameter.name, ": ", Shape(found->second.shape).text(),
                                   " in the checkpoint, ", Shape(parameter.shape).text(), " by the options"));
    }
    if (wrong.empty() && tensors.size() > wanted.size())
        wrong.push_back(
            concat("it has ", tensors.size(), " tensors, the model by the options ", wanted.size()));
    if (wrong.empty())
        return;
    constexpr std::size_t kShown = 5;
    std::vector<std::string> details(
        wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, wrong.size())));
    if (wrong.size() > kShown)
        details.push_back(concat("and ", wrong.size() - kShown, " more"));
    details.push_back("try: the options that it was trained with (h5dump -d /options " +
                      (checkpoint / kIndexFile).string() + "), or another --load");
    throw Error(ErrorCategory::checkpoint, concat(checkpoint.string(), " is of another model"),
                std::move(details));
}

void read_group(StageFiles& files, const std::map<std::string, TensorEntry>& tensors, const char* group,
                const Model& model, const std::function<Tensor(const model::HeldParameter&)>& tensor_of) {
    std::vector<std::byte> staging;
    for (const model::HeldParameter& held : model.parameters->held()) {
        if (held.shard.box.empty())
            continue;
        const Tensor to = tensor_of(held).flat(0, held.shard.box.elements());
        staging.resize(static_cast<std::size_t>(to.bytes()));
        const Tensor host(staging.data(), to.shape(), to.type());
        const storage::Part part{held.shard.box, host.reshaped(Shape(held.shard.box.extents()))};
        files[tensors.at(held.parameter.name).stage].read(group + held.parameter.name, {&part, 1});
        model.backend->copy_to_device(host, to);
    }
}

} // namespace

std::optional<fs::path> find_latest(const fs::path& directory) {
    const fs::path marker = directory / kMarker;
    std::error_code failure;
    if (!fs::exists(marker, failure)) {
        if (failure)
            throw Error(ErrorCategory::checkpoint,
                        concat("cannot look into ", directory.string(), ": ", failure.message()));
        return std::nullopt;
    }
    const fs::path checkpoint = directory / iteration_name(parse_marker(marker));
    if (!fs::exists(checkpoint / kIndexFile, failure))
        throw Error(ErrorCategory::checkpoint,
                    concat(marker.string(), " names a checkpoint that is not there"),
                    {concat("expected: ", (checkpoint / kIndexFile).string()),
                     "try: restore the directory, or write the number of one that exists into the marker"});
    return checkpoint;
}

State read_state(const fs::path& checkpoint) {
    return read_index_state(checkpoint);
}

void load(const fs::path& checkpoint, const Model& model) {
    const comm::PhaseScope phase("loading a checkpoint");
    comm::agree(*model.groups->world, [&] {
        const std::map<std::string, TensorEntry> tensors = read_index_tensors(checkpoint);
        check_shapes(checkpoint, tensors, model.parameters->setup());
        StageFiles files(checkpoint);
        read_group(files, tensors, kParameters, model,
                   [&](const model::HeldParameter& held) { return model.parameters->weight(held); });
        if (model.optimizer == nullptr)
            return;
        read_group(files, tensors, kFirstMoment, model,
                   [&](const model::HeldParameter& held) { return model.optimizer->first_moment(held); });
        read_group(files, tensors, kSecondMoment, model,
                   [&](const model::HeldParameter& held) { return model.optimizer->second_moment(held); });
    });
}

} // namespace trireme::checkpoint
