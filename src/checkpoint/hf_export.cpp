// Writes the directory of a model for transformers.
#include <cstdio>
#include <cstring>
#include <ostream>

#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/hf_config.hpp"
#include "checkpoint/hf_parts.hpp"
#include "checkpoint/hf_tensors.hpp"
#include "checkpoint/names.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/json.hpp"
#include "trireme/base/new_directory.hpp"
#include "trireme/base/progress_line.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/checkpoint/hugging_face.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

std::int64_t bytes_of(const HfTensor& tensor, storage::FloatType type) {
    return tensor.elements() * storage::size_bytes(type);
}

// Tensors in order, as many in a file as fit; a larger one has a file of its own.
std::vector<std::vector<HfTensor>> cut_into_files(std::vector<HfTensor> tensors, storage::FloatType type,
                                                  std::int64_t most_bytes) {
    std::vector<std::vector<HfTensor>> files(1);
    std::int64_t bytes = 0;
    for (HfTensor& tensor : tensors) {
        const std::int64_t more = bytes_of(tensor, type);
        if (bytes > 0 && bytes + more > most_bytes) {
            files.emplace_back();
            bytes = 0;
        }
        bytes += more;
        files.back().push_back(std::move(tensor));
    }
    return files;
}

std::string file_name(std::size_t number, std::size_t files) {
    if (files == 1)
        return kSafetensorsFile;
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number + 1, files);
    return name;
}

std::string index_text(const std::vector<std::vector<HfTensor>>& files, storage::FloatType type) {
    std::int64_t total = 0;
    std::string map;
    for (std::size_t i = 0; i < files.size(); ++i)
        for (const HfTensor& tensor : files[i]) {
            total += bytes_of(tensor, type);
            map += concat(map.empty() ? "\n    " : ",\n    ", json_string(tensor.name), ": ",
                          json_string(file_name(i, files.size())));
        }
    return concat("{\n  \"metadata\": {\"total_size\": ", total, "},\n  \"weight_map\": {", map,
                  "\n  }\n}\n");
}

// What transformers must know to make the tokenizer from the copied files, whatever family the model is of.
std::string tokenizer_config(const std::vector<std::pair<fs::path, std::string>>& files,
                             std::int64_t positions) {
    const bool whole = files.front().second == "tokenizer.json";
    return concat("{\n  \"tokenizer_class\": \"", whole ? "PreTrainedTokenizerFast" : "GPT2Tokenizer",
                  "\",\n  \"model_max_length\": ", positions, "\n}\n");
}

// Every tensor of the export must be there, with the shape that the options give.
void check_shapes(const CheckpointReader& contents, const catalogue::ModelConfig& model) {
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(model, 1)) {
        const auto found = contents.tensors().find(parameter.name);
        if (found == contents.tensors().end() || found->second.shape != parameter.shape)
            throw Error(
                ErrorCategory::checkpoint,
                concat(contents.path().string(), " is damaged: its tensors do not fit its options"),
                {concat(parameter.name, ": ", Shape(parameter.shape).text(), " by the options, ",
                        found == contents.tensors().end() ? "not there" : Shape(found->second.shape).text()),
                 "try: trireme checkpoint inspect, or another checkpoint"});
    }
}

class Exporter {
  public:
    Exporter(CheckpointReader& contents, storage::FloatType type) : contents_(contents), type_(type) {
        const std::string& first = contents.tensors().begin()->first;
        const bool same = float_type(contents.type(kParameters, first)) == type;
        group_ = same ? kParameters : contents.weights(); // widened, the most exact weights there are
    }

    void write(const HfTensor& tensor, storage::SafetensorsWriter& file) {
        const std::int64_t size = storage::size_bytes(type_);
        for_each_run(tensor, kPieceElements,
                     [&](const topology::Interval& run, std::span<const SourcePart> parts) {
                         piece_.resize(static_cast<std::size_t>(run.size() * size));
                         for (const SourcePart& part : parts) {
                             read(part);
                             place(part, converted_, piece_, size, Direction::into_piece);
                         }
                         file.write(piece_);
                     });
    }

  private:
    void read(const SourcePart& part) {
        const storage::FloatType from = float_type(contents_.type(group_, part.source->name));
        const std::int64_t count = part.box.elements();
        raw_.resize(static_cast<std::size_t>(count * storage::size_bytes(from)));
        contents_.read(group_, part.source->name, part.box, raw_);
        converted_.resize(static_cast<std::size_t>(count * storage::size_bytes(type_)));
        storage::convert(raw_, from, converted_, type_);
    }

    CheckpointReader& contents_;
    storage::FloatType type_;
    std::string group_;
    std::vector<std::byte> raw_, converted_, piece_;
};

} // namespace

void export_hf(const fs::path& checkpoint, catalogue::ModelConfig model, const fs::path& directory,
               const HfExport& how, std::ostream& out) {
    CheckpointReader contents(checkpoint);
    constexpr const char* kEmbedding = "embedding.word.weight";
    if (const auto found = contents.tensors().find(kEmbedding); found != contents.tensors().end())
        model.vocabulary = found->second.shape.front();
    check_shapes(contents, model);
    const HfFamily family = family_of(model);
    const storage::FloatType type = float_type(how.type ? *how.type : contents.type(kParameters, kEmbedding));
    const std::vector<std::vector<HfTensor>> files =
        cut_into_files(hf_tensors(family, model), type, how.max_shard_bytes);
    NewDirectory written(directory);
    std::int64_t bytes = 0;
    for (const std::vector<HfTensor>& file : files)
        for (const HfTensor& tensor : file)
            bytes += bytes_of(tensor, type);
    require_room(written.partial(), bytes);
    Exporter exporter(contents, type);
    ProgressLine progress;
    for (std::size_t i = 0; i < files.size(); ++i) {
        std::vector<storage::SafetensorsWriter::Declared> declared;
        for (const HfTensor& tensor : files[i])
            declared.push_back({tensor.name, type, tensor.shape});
        storage::SafetensorsWriter file(written.partial() / file_name(i, files.size()), declared);
        for (const HfTensor& tensor : files[i]) {
            progress.update([&] { return concat("writing ", tensor.name); });
            exporter.write(tensor, file);
        }
        file.publish();
    }
    contents.require_sums();
    if (files.size() > 1)
        publish_file(written.partial() / kSafetensorsIndex, index_text(files, type));
    for (const auto& [from, name] : how.tokenizer_files)
        publish_file(written.partial() / name, read_file(from, ErrorCategory::data));
    if (!how.tokenizer_files.empty())
        publish_file(written.partial() / "tokenizer_config.json",
                     tokenizer_config(how.tokenizer_files, model.max_positions));
    publish_file(written.partial() / kHfConfigFile, hf_config_text(family, model, type, how.end_of_document));
    written.publish();
    out << "exported " << contents.path().string() << " to " << directory.string() << ": "
        << show_bytes(bytes) << " of " << storage::name(type) << " in " << files.size()
        << (files.size() == 1 ? " file\n" : " files\n");
}

} // namespace trireme::checkpoint
