// Each worker tokenizes its blocks into memory of its own and adds them to the files when their turn comes
// (ordered_blocks.hpp).
#include "trireme/data/preprocess.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "data/index_format.hpp"
#include "data/ordered_blocks.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/copy_documents.hpp"
#include "trireme/data/indexed_dataset.hpp"
#include "trireme/data/jsonl.hpp"

namespace trireme::data {
namespace {

constexpr std::size_t kShownBadLines = 10;
constexpr int kMostThreads =
    40; // each has some 8 MB of its own, and they are faster than one reader of a file

// The documents in the order of the input, until they have been shuffled into the files asked for.
class TemporaryPair {
  public:
    explicit TemporaryPair(std::string prefix) : prefix_(std::move(prefix)) {}
    TemporaryPair(TemporaryPair&& other) noexcept : prefix_(std::exchange(other.prefix_, {})) {}
    TemporaryPair& operator=(TemporaryPair&&) = delete;
    ~TemporaryPair() { remove(); }
    // Its names; who has opened it can still read it.
    void remove() {
        std::error_code ignored;
        if (!prefix_.empty())
            for (const std::string& path : {index_path(prefix_), token_path(prefix_)})
                std::filesystem::remove(path, ignored);
    }
    const std::string& prefix() const { return prefix_; }

  private:
    std::string prefix_;
};

// What all workers add to, each in its turn.
struct Outputs {
    std::vector<TemporaryPair> ordered; // before writers, which write them; empty without shuffle
    std::vector<std::unique_ptr<IndexedDatasetWriter>> writers; // [key]
    PreprocessResult result;
    PreprocessProgress progress;
};

class Encoder : public BlockWorker {
  public:
    Encoder(const Tokenizer& tokenizer, const PreprocessOptions& options, Outputs& outputs,
            const std::function<void(const PreprocessProgress&)>& progress)
        : tokenizer_(tokenizer), options_(options), outputs_(outputs), progress_(progress),
          reader_(options.json_keys), scratch_(tokenizer.make_scratch()), ids_(options.json_keys.size()),
          lengths_(options.json_keys.size()), before_(options.json_keys.size()) {}

    void process(InputBlock& block) override {
        for (std::size_t key = 0; key < ids_.size(); ++key) {
            ids_[key].clear();
            lengths_[key].clear();
        }
        bad_.clear();
        text_bytes_ = 0;
        empty_documents_ = 0;
        straight_to_files_ = block.has_turn;
        const auto note_bad = [&](std::int64_t number, const std::string& problem) {
            bad_.push_back(concat(block.input_name, ":", number, ": ", problem));
        };
        if (block.lines.too_long)
            note_bad(block.lines.first_line, describe_too_long());
        std::string& lines = block.lines.text;
        lines.reserve(lines.size() + JsonlReader::kPadding);
        for_each_line(lines, block.lines.first_line, [&](std::string_view line, std::int64_t number) {
            if (const std::string problem = encode_line(line); !problem.empty())
                note_bad(number, problem);
        });
    }

    void deliver(const InputBlock& block) override {
        if (!bad_.empty() && options_.on_bad_line == OnBadLine::error)
            throw Error(ErrorCategory::data, bad_.front(),
                        {"nothing was written; try: mend the line, or --on-bad-line skip to leave such lines "
                         "out and count them"});
        for (std::size_t key = 0; key < ids_.size(); ++key) {
            std::span<const std::int32_t> rest = ids_[key];
            for (const std::size_t length : lengths_[key]) {
                outputs_.writers[key]->add_document(rest.first(length));
                rest = rest.subspan(length);
            }
        }
        PreprocessResult& result = outputs_.result;
        result.text_bytes += text_bytes_;
        result.empty_documents += empty_documents_;
        result.bad_lines += static_cast<std::int64_t>(bad_.size());
        for (std::string& line : bad_)
            if (result.first_bad_lines.size() < kShownBadLines)
                result.first_bad_lines.push_back(std::move(line));
        if (progress_) {
            outputs_.progress.input_bytes_read = block.input_bytes_read;
            outputs_.progress.text_bytes = result.text_bytes;
            outputs_.progress.documents = outputs_.writers.front()->documents();
            progress_(outputs_.progress);
        }
    }

    void shrink() override {
        reader_.shrink();
        scratch_->shrink();
        for (std::size_t key = 0; key < ids_.size(); ++key) {
            std::vector<std::int32_t>().swap(ids_[key]);
            std::vector<std::size_t>().swap(lengths_[key]);
        }
    }

  private:
    // What is wrong with the line; nothing of such a line stays.
    std::string encode_line(std::string_view line) {
        std::string problem;
        const std::span<const std::string_view> texts = reader_.read(line, problem);
        for (std::size_t key = 0; key < ids_.size(); ++key) {
            before_[key] = ids_[key].size();
            if (problem.empty())
                problem = encode_text(texts[key], key);
        }
        for (std::size_t key = 0; key < ids_.size(); ++key) {
            std::vector<std::int32_t>& ids = ids_[key];
            IndexedDatasetWriter& writer = *outputs_.writers[key];
            if (!problem.empty()) {
                ids.resize(before_[key]);
                if (straight_to_files_)
                    writer.discard_document();
                continue;
            }
            if (ids.size() == before_[key] && !(straight_to_files_ && writer.open_tokens() > 0))
                ++empty_documents_;
            else if (options_.end_of_document == EndOfDocument::append)
                ids.push_back(tokenizer_.end_of_document());
            if (straight_to_files_) {
                writer.add_document(ids);
                ids.clear();
            } else {
                lengths_[key].push_back(ids.size() - before_[key]);
            }
            text_bytes_ += static_cast<std::int64_t>(texts[key].size());
        }
        return problem;
    }

    // What is wrong with the text, as only a tokenizer that does not take every text can say.
    std::string encode_text(std::string_view text, std::size_t key) {
        IdSink sink;
        if (straight_to_files_)
            sink = [&](std::span<const std::int32_t> ids) { outputs_.writers[key]->append(ids); };
        try {
            tokenizer_.encode(text, *scratch_, ids_[key], sink);
            return {};
        } catch (const Error& error) {
            if (error.category() != ErrorCategory::data)
                throw;
            return error.what();
        }
    }

    const Tokenizer& tokenizer_;
    const PreprocessOptions& options_;
    Outputs& outputs_; // touched by deliver() alone, but for the files when straight_to_files_
    const std::function<void(const PreprocessProgress&)>& progress_;

    JsonlReader reader_;
    std::unique_ptr<TokenizerScratch> scratch_;
    std::vector<std::vector<std::int32_t>> ids_;    // [key]: all documents of the block back to back
    std::vector<std::vector<std::size_t>> lengths_; // [key][document]
    std::vector<std::size_t> before_;               // [key]: ids before the line
    std::vector<std::string> bad_;                  // FILE:LINE: reason
    std::int64_t text_bytes_ = 0;
    std::int64_t empty_documents_ = 0;
    bool straight_to_files_ = false; // the block has its turn: ids_ and lengths_ stay small
};

// -1 when one of them is no file.
std::int64_t bytes_of(const std::vector<std::string>& inputs) {
    std::int64_t sum = 0;
    for (const std::string& input : inputs) {
        std::error_code error;
        const auto size = input == "-" ? 0 : std::filesystem::file_size(input, error);
        if (input == "-" || error)
            return -1;
        sum += static_cast<std::int64_t>(size);
    }
    return sum;
}

} // namespace

std::string describe(const PreprocessProgress& progress, double seconds) {
    const double per_second = static_cast<double>(progress.documents) / std::max(seconds, 1e-3);
    std::string text = concat(show_count(static_cast<double>(progress.documents)), " documents, ",
                              show_count(per_second), " documents/s, ",
                              show_bytes(static_cast<std::int64_t>(static_cast<double>(progress.text_bytes) /
                                                                   std::max(seconds, 1e-3))),
                              "/s of text");
    if (progress.input_bytes > 0 && progress.input_bytes_read > 0) {
        const double done =
            static_cast<double>(progress.input_bytes_read) / static_cast<double>(progress.input_bytes);
        text += concat(", ", static_cast<int>(100 * done), " %, ", show_duration(seconds * (1 - done) / done),
                       " left");
    }
    return text;
}

PreprocessResult preprocess(const Tokenizer& tokenizer, const PreprocessOptions& options,
                            const std::function<void(const PreprocessProgress&)>& progress) {
    TRIREME_ASSERT(options.workers > 0 && !options.json_keys.empty(), options.workers, " workers, ",
                   options.json_keys.size(), " keys");
    TRIREME_ASSERT(!options.shuffle_seed || options.older_pair == OlderPair::may_differ,
                   "a shuffled pair is not written over one of the same bytes");
    Outputs outputs;
    outputs.progress.input_bytes = bytes_of(options.inputs);
    PreprocessResult& result = outputs.result;
    const TokenType type = token_type_for(tokenizer.vocab_size());
    for (const std::string& key : options.json_keys) {
        result.prefixes.push_back(concat(options.output_prefix, "_", key, "_document"));
        if (options.shuffle_seed)
            outputs.ordered.emplace_back(concat(result.prefixes.back(), ".ordered"));
        outputs.writers.push_back(std::make_unique<IndexedDatasetWriter>(
            options.shuffle_seed ? outputs.ordered.back().prefix() : result.prefixes.back(), type));
    }
    run_in_order(options.inputs, std::min(options.workers, kMostThreads),
                 [&] { return std::make_unique<Encoder>(tokenizer, options, outputs, progress); });
    for (const auto& writer : outputs.writers)
        result.tokens += writer->tokens();
    result.documents = outputs.writers.front()->documents();
    for (const auto& writer : outputs.writers)
        writer->finish(options.older_pair);
    for (std::size_t key = 0; key < outputs.ordered.size(); ++key) {
        const IndexedDataset ordered(outputs.ordered[key].prefix());
        outputs.ordered[key].remove(); // so nothing is left, should we be killed while we copy
        shuffle_documents(ordered, result.prefixes[key], *options.shuffle_seed);
    }
    return std::move(result);
}

} // namespace trireme::data
