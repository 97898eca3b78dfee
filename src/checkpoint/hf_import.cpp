// Reads the directory of a model of transformers and makes a checkpoint of it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <simdjson.h>

#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/hf_config.hpp"
#include "checkpoint/hf_parts.hpp"
#include "checkpoint/hf_tensors.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/partial_directory.hpp"
#include "checkpoint/stage_writer.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/progress_line.hpp"
#include "trireme/checkpoint/hugging_face.hpp"
#include "trireme/checkpoint/verify.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead = "lm_head.weight";

// Where a tensor is: file and entry.
struct Found {
    const storage::SafetensorsReader* file = nullptr;
    const storage::SafeTensor* tensor = nullptr;
};

// The files that an index names: {"weight_map": {tensor: file}}.
std::set<std::string> files_of_index(const fs::path& path) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCategory::checkpoint, concat(path.string(), ": ", why),
                    {"it is read as the index of a model in several files",
                     "try: download or export the model again"});
    };
    const std::string text = read_file(path, ErrorCategory::checkpoint);
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (const auto error = parser.parse(text).get(root))
        refuse(concat("not JSON: ", simdjson::error_message(error)));
    simdjson::dom::object map;
    if (root["weight_map"].get(map))
        refuse("there is no weight_map");
    std::set<std::string> files;
    for (const auto& [tensor, value] : map) {
        std::string_view file;
        if (value.get(file) || file.empty() || file.find('/') != std::string_view::npos)
            refuse(concat("the file of ", tensor, " is no name"));
        files.emplace(file);
    }
    if (files.empty())
        refuse("its weight_map is empty");
    return files;
}

[[noreturn]] void refuse_tensors(const fs::path& directory, std::vector<std::string> wrong) {
    constexpr std::size_t kShown = 5;
    const std::size_t all = wrong.size();
    if (all > kShown) {
        wrong.resize(kShown);
        wrong.push_back(concat("and ", all - kShown, " more"));
    }
    wrong.emplace_back("try: a complete download, with the config.json that belongs to it");
    throw Error(ErrorCategory::checkpoint,
                concat("the tensors of ", directory.string(), " do not fit its ", kHfConfigFile),
                std::move(wrong));
}

} // namespace

struct HfModel::Impl {
    fs::path directory;
    HfConfig config;
    std::vector<storage::SafetensorsReader> files;
    std::map<std::string, Found> found; // by the name in the file
    std::vector<HfTensor> tensors;      // of the model, in order
    std::vector<Found> sources;         // beside `tensors`

    explicit Impl(fs::path of) : directory(std::move(of)), config(read_hf_config(directory / kHfConfigFile)) {
        open_files();
        match();
    }

    void open_files() {
        std::error_code failure;
        std::set<std::string> names;
        if (fs::exists(directory / kSafetensorsFile, failure))
            names.insert(kSafetensorsFile);
        else if (fs::exists(directory / kSafetensorsIndex, failure))
            names = files_of_index(directory / kSafetensorsIndex);
        else
            throw Error(ErrorCategory::checkpoint, concat("there are no weights in ", directory.string()),
                        {concat("neither ", kSafetensorsFile, " nor ", kSafetensorsIndex, " is there"),
                         "try: save_pretrained() of transformers writes them, also from older formats"});
        for (const std::string& name : names)
            files.emplace_back(directory / name);
        for (const storage::SafetensorsReader& file : files)
            for (const auto& [name, tensor] : file.tensors())
                if (!found.emplace(name, Found{&file, &tensor}).second)
                    refuse_tensors(directory, {concat(name, ": in two files")});
    }

    // With the prefix of the model with a head, or without.
    std::optional<Found> find(const std::string& name) const {
        const std::string prefix = bare_prefix(config.family);
        auto at = found.find(name);
        if (at == found.end() && name.starts_with(prefix))
            at = found.find(name.substr(prefix.size()));
        return at == found.end() ? std::nullopt : std::optional(at->second);
    }

    void match() {
        tensors = hf_tensors(config.family, config.model);
        std::vector<std::string> wrong;
        std::set<const storage::SafeTensor*> used;
        for (const HfTensor& tensor : tensors) {
            const std::optional<Found> at = find(tensor.name);
            if (!at) {
                wrong.push_back(concat(tensor.name, ": missing"));
                continue;
            }
            used.insert(at->tensor);
            sources.push_back(*at);
            if (at->tensor->shape != tensor.shape)
                wrong.push_back(concat(tensor.name, ": ", show(at->tensor->shape), " in the file, ",
                                       show(tensor.shape), " by ", kHfConfigFile));
            else if (at->tensor->type == storage::FloatType::other)
                wrong.push_back(concat(tensor.name, ": neither F32, BF16, F16 nor F64"));
        }
        for (const auto& [name, at] : found)
            if (!used.contains(at.tensor) && !is_buffer(config.family, name) && name != kHead)
                wrong.push_back(concat(name, ": not of this architecture"));
        if (!wrong.empty())
            refuse_tensors(directory, std::move(wrong));
        if (config.model.output_layer == catalogue::OutputLayer::tied && found.contains(kHead))
            check_tied(found.at(kHead));
    }

    // A tied output layer that is in the file all the same must be the word embedding.
    void check_tied(const Found& head) const {
        const Found& embedding = sources.front();
        const auto refuse = [&] {
            refuse_tensors(
                directory,
                {concat(kHead, ": tie_word_embeddings is true, but it is not the word embedding")});
        };
        if (head.tensor->shape != embedding.tensor->shape || head.tensor->type != embedding.tensor->type)
            refuse();
        for_each_piece(head.tensor->elements(), [&](const topology::Interval& piece) {
            std::vector<std::byte> a(
                static_cast<std::size_t>(piece.size() * storage::size_bytes(head.tensor->type)));
            std::vector<std::byte> b(a.size());
            head.file->read(*head.tensor, piece.begin, a);
            embedding.file->read(*embedding.tensor, piece.begin, b);
            if (a != b)
                refuse();
        });
    }

    static std::string show(std::span<const std::int64_t> shape) {
        std::string text;
        for (const std::int64_t extent : shape)
            text += concat(text.empty() ? "" : ", ", extent);
        return concat("[", text, "]");
    }

    // All tensors of the model, by pieces.
    void write(StageWriter& writer, const Contents& contents, DType type) const {
        ProgressLine progress;
        std::vector<std::byte> raw, piece, packed;
        const std::int64_t size = size_bytes(type);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            progress.update([&] { return concat("reading ", tensors[i].name); });
            const storage::FloatType from = sources[i].tensor->type;
            for_each_run(tensors[i], kPieceElements,
                         [&](const topology::Interval& run, std::span<const SourcePart> parts) {
                             raw.resize(static_cast<std::size_t>(run.size() * storage::size_bytes(from)));
                             sources[i].file->read(*sources[i].tensor, run.begin, raw);
                             piece.resize(static_cast<std::size_t>(run.size() * size));
                             storage::convert(raw, from, piece, float_type(type));
                             for (const SourcePart& part : parts) {
                                 packed.resize(static_cast<std::size_t>(part.box.elements() * size));
                                 place(part, packed, piece, size, Direction::out_of_piece);
                                 const std::size_t tensor = contents.find_tensor(part.source->name).value();
                                 writer.write(contents.slot(0, tensor), part.box, packed);
                             }
                         });
        }
    }
};

HfModel::HfModel(const fs::path& directory) : impl_(std::make_unique<Impl>(directory)) {}
HfModel::HfModel(HfModel&&) noexcept = default;
HfModel& HfModel::operator=(HfModel&&) noexcept = default;
HfModel::~HfModel() = default;

const catalogue::ModelConfig& HfModel::config() const {
    return impl_->config.model;
}

DType HfModel::type() const {
    switch (impl_->sources.front().tensor->type) {
    case storage::FloatType::bf16:
        return DType::bf16;
    case storage::FloatType::f64:
        return DType::f64;
    case storage::FloatType::f16:
        return DType::f16;
    default:
        return DType::f32;
    }
}

fs::path HfModel::import(const fs::path& save, DType type, const std::string& options) {
    std::error_code failure;
    if (fs::exists(save / kMarker, failure) || (fs::exists(save, failure) && !checkpoints_in(save).empty()))
        throw Error(ErrorCategory::usage, concat("there are checkpoints in ", save.string(), " already"),
                    {"try: another --save"});
    State state;
    state.options = options;
    state.layout = "one process";
    state.has_optimizer = false;
    Contents contents;
    contents.groups.push_back({kParameters, type});
    std::int64_t bytes = 0;
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(impl_->config.model, 1)) {
        contents.tensors.push_back({parameter.name, 0, parameter.shape});
        bytes += parameter.elements() * size_bytes(type);
    }
    const fs::path checkpoint = save / kReleaseDirectory, partial = partial_name(checkpoint);
    PartialDirectory written(checkpoint);
    require_room(partial, bytes);
    const std::unique_ptr<comm::HostGroup> alone = comm::make_self_host_group();
    const fs::path stage = partial / stage_name(0);
    StageWriter writer(stage, contents, lay_out_stage(stage, contents, 0, *alone));
    impl_->write(writer, contents, type);
    writer.finish(ReadBack::yes, 1);
    write_index(partial, state, contents, writer.sums());
    written.publish();
    publish_file(save / kMarker, concat(kReleaseDirectory, "\n"));
    written.settle();
    return checkpoint;
}

} // namespace trireme::checkpoint
