// preprocess(): no queue and no writer thread. A worker holds one block at a time, so memory is bounded by
// the number of workers times the block, and turns keep the order.
#include "trireme/data/preprocess.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "data/index_format.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/copy_documents.hpp"
#include "trireme/data/indexed_dataset.hpp"
#include "trireme/data/jsonl.hpp"
#include "trireme/data/text_source.hpp"

namespace trireme::data {
namespace {

constexpr std::size_t kShownBadLines = 10;
constexpr int kMostThreads =
    40; // each has some 8 MB of its own, and they are faster than one reader of a file
constexpr std::size_t kMostBytesInFlight = std::size_t{1} << 23;

struct BadLine {
    std::string message; // FILE:LINE: reason
};

// A block of lines on its way from the input to the files.
struct Work {
    LineBlock lines;
    std::string input_name;
    std::int64_t turn = 0;
    std::vector<std::vector<std::int32_t>> ids;   // [key]: all documents of the block back to back
    std::vector<std::vector<std::size_t>> length; // [key][document]
    std::vector<BadLine> bad;
    std::int64_t text_bytes = 0;
    std::int64_t empty_documents = 0;
};

// The documents in the order of the input, until they have been shuffled into the files asked for.
class TemporaryPair {
  public:
    explicit TemporaryPair(std::string prefix) : prefix_(std::move(prefix)) {}
    TemporaryPair(TemporaryPair&& other) noexcept : prefix_(std::exchange(other.prefix_, {})) {}
    TemporaryPair& operator=(TemporaryPair&&) = delete;
    ~TemporaryPair() {
        std::error_code ignored;
        if (!prefix_.empty())
            for (const std::string& path : {index_path(prefix_), token_path(prefix_)})
                std::filesystem::remove(path, ignored);
    }
    const std::string& prefix() const { return prefix_; }

  private:
    std::string prefix_;
};

class Preprocessor {
  public:
    Preprocessor(const Tokenizer& tokenizer, const PreprocessOptions& options,
                 const std::function<void(const PreprocessProgress&)>& progress)
        : tokenizer_(tokenizer), options_(options), progress_call_(progress) {
        TRIREME_ASSERT(options.workers > 0 && !options.json_keys.empty(), options.workers, " workers, ",
                       options.json_keys.size(), " keys");
        progress_.input_bytes = 0;
        for (const std::string& input : options.inputs) {
            std::error_code error;
            const auto size = input == "-" ? 0 : std::filesystem::file_size(input, error);
            const bool known = input != "-" && !error && progress_.input_bytes >= 0;
            progress_.input_bytes = known ? progress_.input_bytes + static_cast<std::int64_t>(size) : -1;
        }
    }

    PreprocessResult run() {
        const TokenType type = token_type_for(tokenizer_.vocab_size());
        for (const std::string& key : options_.json_keys) {
            result_.prefixes.push_back(concat(options_.output_prefix, "_", key, "_document"));
            if (options_.shuffle_seed)
                ordered_.emplace_back(concat(result_.prefixes.back(), ".ordered"));
            writers_.push_back(std::make_unique<IndexedDatasetWriter>(
                options_.shuffle_seed ? ordered_.back().prefix() : result_.prefixes.back(), type));
        }
        {
            std::vector<std::jthread> threads; // joined at the end of the block
            for (int worker = 1; worker < std::min(options_.workers, kMostThreads); ++worker)
                threads.emplace_back([this] { work(); });
            work();
        }
        if (failure_)
            std::rethrow_exception(failure_);
        for (const auto& writer : writers_)
            result_.tokens += writer->tokens();
        result_.documents = writers_.front()->documents();
        for (const auto& writer : writers_)
            writer->finish();
        for (std::size_t key = 0; key < ordered_.size(); ++key)
            shuffle_documents(ordered_[key].prefix(), result_.prefixes[key], *options_.shuffle_seed);
        return std::move(result_);
    }

  private:
    void work() {
        try {
            JsonlReader reader(options_.json_keys);
            const std::unique_ptr<TokenizerScratch> scratch = tokenizer_.make_scratch();
            Work work;
            while (take(work)) {
                encode(work, reader, *scratch);
                if (!write(work))
                    return;
            }
        } catch (...) {
            fail(std::current_exception());
        }
    }

    // The next block of the inputs, with its turn. False at their end, or when another worker has failed.
    bool take(Work& work) {
        const std::lock_guard lock(input_mutex_);
        if (input_failed_)
            return false;
        try {
            while (true) {
                if (!source_) {
                    if (next_input_ == options_.inputs.size())
                        return false;
                    source_ = std::make_unique<TextSource>(options_.inputs[next_input_++]);
                }
                if (source_->next_lines(work.lines)) {
                    work.input_name = source_->name();
                    work.turn = next_turn_to_give_++;
                    wait_for_room(work.lines.text.size());
                    input_bytes_read_ = bytes_of_finished_inputs_ + source_->bytes_read();
                    return true;
                }
                bytes_of_finished_inputs_ += source_->bytes_read();
                source_.reset();
            }
        } catch (...) {
            // Lines before the damage count: they may hold an earlier error. So this takes a turn, too.
            input_failed_ = true;
            work.turn = next_turn_to_give_++;
            input_failure_ = std::current_exception();
            input_failure_turn_ = work.turn;
        }
        work.lines.text.clear();
        return true;
    }

    void encode(Work& work, JsonlReader& reader, TokenizerScratch& scratch) {
        const std::size_t keys = options_.json_keys.size();
        work.ids.resize(keys);
        work.length.resize(keys);
        for (std::size_t key = 0; key < keys; ++key) {
            work.ids[key].clear();
            work.length[key].clear();
        }
        work.bad.clear();
        work.text_bytes = 0;
        work.empty_documents = 0;
        work.lines.text.reserve(work.lines.text.size() + JsonlReader::kPadding);
        std::string problem;
        std::vector<std::size_t> before(keys);
        for_each_line(work.lines.text, work.lines.first_line,
                      [&](std::string_view line, std::int64_t number) {
                          const std::span<const std::string_view> texts = reader.read(line, problem);
                          for (std::size_t key = 0; key < keys; ++key) {
                              before[key] = work.ids[key].size();
                              if (problem.empty())
                                  problem = encode_text(texts[key], scratch, work.ids[key]);
                          }
                          if (!problem.empty()) { // nothing of a bad line stays
                              for (std::size_t key = 0; key < keys; ++key)
                                  work.ids[key].resize(before[key]);
                              work.bad.push_back({concat(work.input_name, ":", number, ": ", problem)});
                              return;
                          }
                          for (std::size_t key = 0; key < keys; ++key) {
                              std::vector<std::int32_t>& ids = work.ids[key];
                              if (ids.size() == before[key])
                                  ++work.empty_documents;
                              else if (options_.end_of_document == EndOfDocument::append)
                                  ids.push_back(tokenizer_.end_of_document());
                              work.length[key].push_back(ids.size() - before[key]);
                              work.text_bytes += static_cast<std::int64_t>(texts[key].size());
                          }
                      });
    }

    // Memory is a few times the text between input and output. The blocks that came earlier need nothing from
    // this one, so they will be written.
    void wait_for_room(std::size_t bytes) {
        std::unique_lock lock(output_mutex_);
        turn_changed_.wait(lock, [&] {
            return failure_ || bytes_in_flight_ == 0 || bytes_in_flight_ + bytes <= kMostBytesInFlight;
        });
        bytes_in_flight_ += bytes;
    }

    // What is wrong with the text, as only a tokenizer that does not take every text can say.
    std::string encode_text(std::string_view text, TokenizerScratch& scratch,
                            std::vector<std::int32_t>& ids) const {
        try {
            tokenizer_.encode(text, scratch, ids);
            return {};
        } catch (const Error& error) {
            if (error.category() != ErrorCategory::data)
                throw;
            return error.what();
        }
    }

    // Waits for the turn of the block and writes it. False when another worker has failed meanwhile.
    bool write(Work& work) {
        std::unique_lock lock(output_mutex_);
        turn_changed_.wait(lock, [&] { return failure_ || next_turn_to_write_ == work.turn; });
        if (failure_)
            return false;
        if (work.turn == input_failure_turn_)
            std::rethrow_exception(input_failure_);
        if (!work.bad.empty() && options_.on_bad_line == OnBadLine::error)
            throw Error(ErrorCategory::data, work.bad.front().message,
                        {"nothing was written; try: mend the line, or --on-bad-line skip to leave such lines "
                         "out and count them"});
        for (std::size_t key = 0; key < writers_.size(); ++key) {
            std::span<const std::int32_t> rest = work.ids[key];
            for (const std::size_t length : work.length[key]) {
                writers_[key]->add_document(rest.first(length));
                rest = rest.subspan(length);
            }
        }
        result_.text_bytes += work.text_bytes;
        result_.empty_documents += work.empty_documents;
        for (BadLine& line : work.bad) {
            ++result_.bad_lines;
            if (result_.first_bad_lines.size() < kShownBadLines)
                result_.first_bad_lines.push_back(std::move(line.message));
        }
        if (progress_call_) {
            progress_.input_bytes_read = input_bytes_read_;
            progress_.text_bytes = result_.text_bytes;
            progress_.documents = writers_.front()->documents();
            progress_call_(progress_);
        }
        ++next_turn_to_write_;
        bytes_in_flight_ -= work.lines.text.size();
        turn_changed_.notify_all();
        return true;
    }

    void fail(std::exception_ptr why) {
        {
            const std::lock_guard lock(output_mutex_);
            if (!failure_)
                failure_ = why;
        }
        turn_changed_.notify_all();
    }

    const Tokenizer& tokenizer_;
    const PreprocessOptions& options_;
    const std::function<void(const PreprocessProgress&)>& progress_call_;

    std::mutex input_mutex_;
    std::size_t next_input_ = 0;
    std::unique_ptr<TextSource> source_;
    std::int64_t next_turn_to_give_ = 0;
    std::int64_t bytes_of_finished_inputs_ = 0;
    std::atomic<std::int64_t> input_bytes_read_ = 0;
    bool input_failed_ = false;
    std::atomic<std::int64_t> input_failure_turn_ = -1;
    std::exception_ptr input_failure_; // written before input_failure_turn_

    std::mutex output_mutex_;
    std::condition_variable turn_changed_;
    std::int64_t next_turn_to_write_ = 0;
    std::size_t bytes_in_flight_ = 0;
    std::exception_ptr failure_;
    std::vector<TemporaryPair> ordered_; // before writers_, which write them; empty without shuffle
    std::vector<std::unique_ptr<IndexedDatasetWriter>> writers_;
    PreprocessResult result_;
    PreprocessProgress progress_;
};

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
    return Preprocessor(tokenizer, options, progress).run();
}

} // namespace trireme::data
