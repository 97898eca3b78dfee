// Finds and loads checkpoints. Each rank opens the stage files that hold what it needs and reads its own
// boxes.
#include <algorithm>
#include <charconv>
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

// Widens or narrows between the float types of files and memory, on the host.
void convert(const Tensor& from, Tensor to) {
    with_float_type(from.type(), [&](auto from_zero) {
        with_float_type(to.type(), [&](auto to_zero) {
            using To = decltype(to_zero);
            const auto source = from.values<decltype(from_zero)>();
            const auto target = to.values<To>();
            for (std::size_t i = 0; i < source.size(); ++i)
                target[i] = static_cast<To>(static_cast<float>(source[i]));
        });
    });
}

// Reads boxes of tensors into device memory, whatever float type the file has.
class TensorReader {
  public:
    TensorReader(const fs::path& checkpoint, const Model& model)
        : files_(checkpoint), tensors_(read_index_tensors(checkpoint)), model_(model) {
        check_shapes(checkpoint, tensors_, model.parameters->setup());
    }

    void read(const char* group, const std::string& parameter, const optimizer::StatePart& part) {
        storage::File& file = files_[tensors_.at(parameter).stage];
        const std::string name = group + parameter;
        const DType in_file = file.info(name).type, wanted = part.tensor.type();
        const bool hdf5_converts = !is_narrow(in_file) && !is_narrow(wanted); // fp32 and fp64
        const DType read_as = in_file == wanted || hdf5_converts ? wanted
                              : is_narrow(in_file)               ? in_file
                                                                 : DType::f32;
        const Tensor host = stage(part.tensor.shape(), read_as, staging_);
        const storage::Part on_host{part.box, host.reshaped(Shape(part.box.extents()))};
        file.read(name, {&on_host, 1});
        if (read_as == wanted) {
            model_.backend->copy_to_device(host, part.tensor);
            return;
        }
        const Tensor converted = stage(part.tensor.shape(), wanted, converted_);
        convert(host, converted);
        model_.backend->copy_to_device(converted, part.tensor);
    }

  private:
    static Tensor stage(const Shape& shape, DType type, std::vector<std::byte>& memory) {
        memory.resize(static_cast<std::size_t>(shape.elements() * size_bytes(type)));
        return {memory.data(), shape, type};
    }

    StageFiles files_;
    std::map<std::string, TensorEntry> tensors_;
    const Model& model_;
    std::vector<std::byte> staging_, converted_;
};

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
    using optimizer::StateKind;
    const comm::PhaseScope phase("loading a checkpoint");
    comm::HostGroup& world = *model.groups->world;
    comm::agree(world, [&] {
        const State state = read_index_state(checkpoint);
        TensorReader reader(checkpoint, model);
        const char* master = state.has_master_weights ? group_of(StateKind::master_weights) : kParameters;
        // The most exact weights there are, rounded if this run's are narrower.
        for (const model::HeldParameter& held : model.parameters->held())
            if (const topology::Box& box = held.shard.box; !box.empty())
                reader.read(master, held.parameter.name,
                            {box, model.parameters->weight(held).flat(0, box.elements())});
        if (model.optimizer == nullptr)
            return;
        for (const StateKind kind : optimizer::kAllStateKinds)
            for (const model::HeldParameter& held : model.parameters->held())
                if (model.optimizer->has(kind))
                    for (const optimizer::StatePart& part : model.optimizer->parts(held, kind))
                        reader.read(kind == StateKind::master_weights ? master : group_of(kind),
                                    held.parameter.name, part);
    });
}

} // namespace trireme::checkpoint
