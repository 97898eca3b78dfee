// Threads count blocks of lines on their own and add their counts in the order of the blocks, so that what is
// left out to bound memory, and which bad line is reported, do not depend on their number.
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/data/bpe_trainer.hpp"
#include "trireme/data/jsonl.hpp"
#include "trireme/data/text_source.hpp"

namespace trireme::data {
namespace {

class Counter {
  public:
    Counter(const std::vector<std::string>& inputs, const std::vector<std::string>& keys,
            const std::function<void(std::int64_t)>& progress)
        : inputs_(inputs), keys_(keys), progress_(progress) {}

    CountedText run(int workers) {
        {
            std::vector<std::jthread> threads; // joined at the end of the block
            for (int worker = 1; worker < workers; ++worker)
                threads.emplace_back([this] { work(); });
            work();
        }
        if (failure_)
            std::rethrow_exception(failure_);
        return std::move(result_);
    }

  private:
    void work() {
        JsonlReader reader(keys_);
        LineBlock block;
        std::string name;
        for (std::int64_t turn = 0;;) {
            std::exception_ptr error;
            CountedText counted;
            if (!take(block, name, turn, error))
                return;
            try {
                if (!error)
                    counted = count(block, name, reader);
            } catch (...) {
                error = std::current_exception();
            }
            std::unique_lock lock(mutex_);
            turn_changed_.wait(lock, [&] { return failure_ || next_to_add_ == turn; });
            if (failure_)
                return;
            if (error)
                failure_ = error;
            else
                add(counted);
            ++next_to_add_;
            turn_changed_.notify_all();
        }
    }

    // The next block, or the error met on the way to it, with its turn; false at the end.
    bool take(LineBlock& block, std::string& name, std::int64_t& turn, std::exception_ptr& error) {
        const std::lock_guard lock(input_mutex_);
        if (input_failed_)
            return false;
        try {
            while (true) {
                if (!source_) {
                    if (next_input_ == inputs_.size())
                        return false;
                    source_ = std::make_unique<TextSource>(inputs_[next_input_++]);
                }
                if (source_->next_lines(block))
                    break;
                source_.reset();
            }
            name = source_->name();
        } catch (...) {
            input_failed_ = true;
            error = std::current_exception();
        }
        turn = next_to_give_++;
        return true;
    }

    static CountedText count(LineBlock& block, const std::string& name, JsonlReader& reader) {
        CountedText counted;
        std::string problem;
        block.text.reserve(block.text.size() + JsonlReader::kPadding);
        for_each_line(block.text, block.first_line, [&](std::string_view line, std::int64_t number) {
            const auto texts = reader.read(line, problem);
            if (!problem.empty())
                throw Error(ErrorCategory::data, concat(name, ":", number, ": ", problem));
            for (const std::string_view text : texts) {
                counted.trainer.add(text);
                counted.text_bytes += static_cast<std::int64_t>(text.size());
            }
            ++counted.documents;
        });
        return counted;
    }

    void add(const CountedText& counted) {
        result_.trainer.absorb(counted.trainer);
        result_.documents += counted.documents;
        result_.text_bytes += counted.text_bytes;
        if (progress_)
            progress_(result_.text_bytes);
    }

    const std::vector<std::string>& inputs_;
    const std::vector<std::string>& keys_;
    const std::function<void(std::int64_t)>& progress_;

    std::mutex input_mutex_;
    std::size_t next_input_ = 0;
    std::unique_ptr<TextSource> source_;
    std::int64_t next_to_give_ = 0;
    bool input_failed_ = false;

    std::mutex mutex_;
    std::condition_variable turn_changed_;
    std::int64_t next_to_add_ = 0;
    std::exception_ptr failure_;
    CountedText result_;
};

} // namespace

CountedText count_words(const std::vector<std::string>& inputs, const std::vector<std::string>& keys,
                        int workers, const std::function<void(std::int64_t)>& progress) {
    TRIREME_ASSERT(workers > 0 && !keys.empty(), workers, " workers, ", keys.size(), " keys");
    return Counter(inputs, keys, progress).run(workers);
}

} // namespace trireme::data
