// Threads count blocks of lines on their own and add their counts in the order of the blocks, so that what is
// left out to bound memory, and which bad line is reported, do not depend on their number.
#include <memory>

#include "data/ordered_blocks.hpp"
#include "trireme/base/error.hpp"
#include "trireme/data/bpe_trainer.hpp"
#include "trireme/data/jsonl.hpp"

namespace trireme::data {
namespace {

class Counter : public BlockWorker {
  public:
    Counter(const std::vector<std::string>& keys, CountedText& sum,
            const std::function<void(std::int64_t)>& progress)
        : reader_(keys), sum_(sum), progress_(progress) {}

    void process(InputBlock& block) override {
        counted_ = {};
        if (block.lines.too_long)
            throw Error(ErrorCategory::data,
                        concat(block.input_name, ":", block.lines.first_line, ": ", describe_too_long()));
        std::string& lines = block.lines.text;
        lines.reserve(lines.size() + JsonlReader::kPadding);
        for_each_line(lines, block.lines.first_line, [&](std::string_view line, std::int64_t number) {
            const auto texts = reader_.read(line, problem_);
            if (!problem_.empty())
                throw Error(ErrorCategory::data, concat(block.input_name, ":", number, ": ", problem_));
            for (const std::string_view text : texts) {
                counted_.trainer.add(text);
                counted_.text_bytes += static_cast<std::int64_t>(text.size());
            }
            ++counted_.documents;
        });
    }

    void deliver(const InputBlock&) override {
        sum_.trainer.absorb(counted_.trainer);
        sum_.documents += counted_.documents;
        sum_.text_bytes += counted_.text_bytes;
        if (progress_)
            progress_(sum_.text_bytes);
    }

    void shrink() override {
        reader_.shrink();
        counted_ = {};
    }

  private:
    JsonlReader reader_;
    CountedText& sum_; // of all workers, touched by deliver() alone
    const std::function<void(std::int64_t)>& progress_;
    CountedText counted_; // in this block
    std::string problem_;
};

} // namespace

CountedText count_words(const std::vector<std::string>& inputs, const std::vector<std::string>& keys,
                        int workers, const std::function<void(std::int64_t)>& progress) {
    TRIREME_ASSERT(workers > 0 && !keys.empty(), workers, " workers, ", keys.size(), " keys");
    CountedText sum;
    run_in_order(inputs, workers, [&] { return std::make_unique<Counter>(keys, sum, progress); });
    return sum;
}

} // namespace trireme::data
