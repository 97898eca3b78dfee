// Two locks: one for the inputs, held while a block is read and given its turn, and one for the outputs, held
// while a block is delivered. A worker takes both only in this order.
#include "data/ordered_blocks.hpp"

#include <condition_variable>
#include <exception>
#include <malloc.h>
#include <mutex>
#include <thread>

#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

constexpr std::size_t kMostBytesInFlight = std::size_t{1} << 23;
constexpr std::size_t kUsualBytes = std::size_t{1} << 20; // blocks of more leave nothing behind

// Threads keep what they have freed, each for itself; after a large block that would add up.
void return_freed_memory() {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

struct Turn {
    std::int64_t number = 0;
    std::size_t bytes = 0;
    std::exception_ptr error;
};

class OrderedBlocks {
  public:
    OrderedBlocks(const std::vector<std::string>& inputs,
                  const std::function<std::unique_ptr<BlockWorker>()>& make_worker)
        : inputs_(inputs), make_worker_(make_worker) {}

    void run(int threads) {
        {
            std::vector<std::jthread> others; // joined at the end of the block
            for (int thread = 1; thread < threads; ++thread)
                others.emplace_back([this] { work(); });
            work();
        }
        if (failure_)
            std::rethrow_exception(failure_);
    }

  private:
    void work() {
        try {
            const std::unique_ptr<BlockWorker> worker = make_worker_();
            InputBlock block;
            for (Turn turn; take(block, turn);) {
                process(*worker, block, turn);
                std::unique_lock lock(output_mutex_);
                turn_changed_.wait(lock, [&] { return failure_ || next_to_deliver_ == turn.number; });
                if (failure_)
                    return;
                if (turn.error)
                    std::rethrow_exception(turn.error);
                worker->deliver(block);
                if (turn.bytes > kUsualBytes) { // before others may read the next block
                    worker->shrink();
                    std::string().swap(block.lines.text); // an assignment would keep the room
                    return_freed_memory();
                }
                ++next_to_deliver_;
                bytes_in_flight_ -= turn.bytes;
                turn_changed_.notify_all();
            }
        } catch (...) {
            const std::lock_guard lock(output_mutex_);
            if (!failure_)
                failure_ = std::current_exception();
            turn_changed_.notify_all();
        }
    }

    static void process(BlockWorker& worker, InputBlock& block, Turn& turn) {
        if (turn.error)
            return;
        try {
            worker.process(block);
        } catch (...) {
            turn.error = std::current_exception();
        }
    }

    // The next block, or the error met on the way to it: lines before the damage may hold an earlier error,
    // so it takes a turn, too. False at the end of the inputs, or when another worker has failed.
    bool take(InputBlock& block, Turn& turn) {
        const std::lock_guard lock(input_mutex_);
        if (input_failed_ || !wait_until([&] { return bytes_in_flight_ <= kMostBytesInFlight; }))
            return false;
        turn = {};
        try {
            if (!read(block))
                return false;
            turn.bytes = block.lines.text.size();
        } catch (...) {
            input_failed_ = true;
            turn.error = std::current_exception();
        }
        turn.number = next_to_give_++;
        // The blocks that came earlier need nothing from this one, so they will be delivered and make room.
        return wait_until([&] {
            const bool room = bytes_in_flight_ == 0 || bytes_in_flight_ + turn.bytes <= kMostBytesInFlight;
            if (room) {
                bytes_in_flight_ += turn.bytes;
                block.has_turn = bytes_in_flight_ > kMostBytesInFlight;
            }
            return room;
        });
    }

    bool read(InputBlock& block) {
        while (true) {
            if (!source_) {
                if (next_input_ == inputs_.size())
                    return false;
                source_ = std::make_unique<TextSource>(inputs_[next_input_++]);
            }
            if (source_->next_lines(block.lines)) {
                block.input_name = source_->name();
                block.input_bytes_read = bytes_of_finished_inputs_ + source_->bytes_read();
                return true;
            }
            bytes_of_finished_inputs_ += source_->bytes_read();
            source_.reset();
        }
    }

    // False when a worker has failed.
    template <class Condition>
    bool wait_until(Condition condition) {
        std::unique_lock lock(output_mutex_);
        turn_changed_.wait(lock, [&] { return failure_ || condition(); });
        return !failure_;
    }

    const std::vector<std::string>& inputs_;
    const std::function<std::unique_ptr<BlockWorker>()>& make_worker_;

    std::mutex input_mutex_;
    std::size_t next_input_ = 0;
    std::unique_ptr<TextSource> source_;
    std::int64_t bytes_of_finished_inputs_ = 0;
    std::int64_t next_to_give_ = 0;
    bool input_failed_ = false;

    std::mutex output_mutex_;
    std::condition_variable turn_changed_;
    std::int64_t next_to_deliver_ = 0;
    std::size_t bytes_in_flight_ = 0;
    std::exception_ptr failure_;
};

} // namespace

void run_in_order(const std::vector<std::string>& inputs, int threads,
                  const std::function<std::unique_ptr<BlockWorker>()>& make_worker) {
    TRIREME_ASSERT(threads > 0, threads, " threads");
    OrderedBlocks(inputs, make_worker).run(threads);
}

} // namespace trireme::data
