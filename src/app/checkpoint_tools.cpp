// From options to the functions of the checkpoint layer, which do not know options.
#include "checkpoint_tools.hpp"

#include <filesystem>
#include <iostream>

#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/hugging_face.hpp"
#include "trireme/checkpoint/tools.hpp"
#include "trireme/data/tokenizer.hpp"
#include "trireme/options/checkpoint_tool.hpp"
#include "trireme/train/model_config.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// What a checkpoint says of itself that is wrong is the checkpoint's fault, not that of the command line.
options::Resolved::Model model_of(const checkpoint::State& state, const fs::path& path) {
    try {
        return options::model_in({state.options, path.string()});
    } catch (const Error& error) {
        throw Error(ErrorCategory::checkpoint,
                    concat(path.string(), " has options that do not describe a model: ", error.what()),
                    error.details());
    }
}

// The files to copy under the names that transformers expects, and the id that ends a text.
void add_tokenizer(const options::CheckpointTool& tool, checkpoint::HfExport& how) {
    if (!tool.tokenizer_model.empty()) {
        how.tokenizer_files.emplace_back(tool.tokenizer_model, "tokenizer.json");
        how.end_of_document = data::load_hf_tokenizer(tool.tokenizer_model)->end_of_document();
    } else if (!tool.vocab_file.empty()) {
        how.tokenizer_files.emplace_back(tool.vocab_file, "vocab.json");
        how.tokenizer_files.emplace_back(tool.merge_file, "merges.txt");
        how.end_of_document = data::load_gpt2_bpe(tool.vocab_file, tool.merge_file)->end_of_document();
    }
}

void export_hf(const options::CheckpointTool& tool) {
    const fs::path path = checkpoint::require_checkpoint(tool.load, tool.step);
    const options::Resolved::Model model = model_of(checkpoint::read_state(path), path);
    checkpoint::HfExport how;
    how.max_shard_bytes = tool.max_shard_bytes;
    if (tool.type)
        how.type = train::weight_type(*tool.type);
    add_tokenizer(tool, how);
    checkpoint::export_hf(path, train::model_config(model, 0), tool.paths[0], how, std::cout);
}

// The tokenizer that stands beside the model's weights, if trireme can read it.
void find_tokenizer(const fs::path& directory, options::Values& values) {
    std::error_code failure;
    if (fs::exists(directory / "tokenizer.json", failure)) {
        values.tokenizer_type = "HFTokenizerFile";
        values.tokenizer_model = (directory / "tokenizer.json").string();
    } else if (fs::exists(directory / "vocab.json", failure) &&
               fs::exists(directory / "merges.txt", failure)) {
        values.tokenizer_type = "GPT2BPETokenizer";
        values.vocab_file = (directory / "vocab.json").string();
        values.merge_file = (directory / "merges.txt").string();
    }
}

void import_hf(const options::CheckpointTool& tool) {
    const fs::path directory = tool.paths[0];
    checkpoint::HfModel model(directory);
    catalogue::ModelConfig config = model.config();
    constexpr std::int64_t kUsualSequence =
        4096; // models of today have positions that no run here could hold
    config.sequence = tool.seq_length.value_or(std::min(config.max_positions, kUsualSequence));
    if (config.sequence > config.max_positions)
        throw Error(ErrorCategory::usage,
                    concat("sequences of ", config.sequence, " tokens are longer than the ",
                           config.max_positions, " positions of the model"),
                    {concat("--seq-length ", config.sequence, " (command line)"),
                     concat("try: --seq-length ", config.max_positions)});
    const DType type = tool.type ? train::weight_type(*tool.type) : model.type();
    options::Values values = train::model_values(config, type);
    find_tokenizer(directory, values);
    if (values.tokenizer_type)
        values.vocab_size = config.vocabulary; // models may have more words than their tokenizer
    const fs::path made = model.import(tool.save, type, options::to_config(values, {}, options::Kept::model));
    std::cout << "imported " << directory.string() << " as " << made.string() << " (" << name(type)
              << ", sequence length " << config.sequence << ")\n"
              << "try: trireme generate --load " << tool.save << ", or trireme pretrain --load " << tool.save
              << "\n";
}

} // namespace

int run_checkpoint_tool(const options::Parsed& parsed) {
    const options::CheckpointTool tool = options::resolve_checkpoint_tool(parsed);
    switch (tool.command) {
    case options::Command::checkpoint_inspect:
        checkpoint::inspect(tool.paths[0],
                            tool.norms ? checkpoint::TensorValues::summarise
                                       : checkpoint::TensorValues::leave_aside,
                            std::cout);
        return 0;
    case options::Command::checkpoint_diff:
        return checkpoint::differ(tool.paths[0], tool.paths[1], std::cout) ? 1 : 0;
    case options::Command::checkpoint_verify:
        checkpoint::verify_and_report(tool.paths[0], std::cout);
        return 0;
    case options::Command::checkpoint_export_hf:
        export_hf(tool);
        return 0;
    case options::Command::checkpoint_import_hf:
        import_hf(tool);
        return 0;
    default:
        break;
    }
    TRIREME_ASSERT(false, "not a checkpoint tool: ", options::name_of(tool.command));
    return 1;
}

} // namespace trireme
