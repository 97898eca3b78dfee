// Loader: a ring of slots. Workers take block numbers in order, fill slot (number modulo slots) once its last
// content has been consumed, and mark it; next() waits for the block that is due.
#include "trireme/data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/base/error.hpp"

namespace trireme::data {

struct Loader::State {
    struct Slot {
        std::vector<std::int32_t> tokens; // [micro_batch, sequence_length + 1]
        std::int64_t block = -1;          // which block it holds, -1: none yet
        std::exception_ptr error;
    };

    ReadSample read_sample;
    LoaderOptions options;
    std::vector<Slot> slots;

    std::mutex mutex;
    std::condition_variable filled; // waited for by next()
    std::condition_variable freed;  // waited for by the workers
    std::int64_t next_to_read = 0;
    std::int64_t consumed = 0; // blocks below it may be overwritten
    std::int64_t next_due = 0;
    bool stopping = false;
    bool failed = false;          // nothing is read past a failure
    std::exception_ptr delivered; // by next(): thrown again by every later call
    std::vector<std::thread> workers;

    // Also runs when only some of the threads could be started.
    ~State() {
        {
            const std::lock_guard lock(mutex);
            stopping = true;
        }
        freed.notify_all();
        for (std::thread& worker : workers)
            worker.join();
    }

    Slot& slot_of(std::int64_t block) { return slots[static_cast<std::size_t>(block) % slots.size()]; }

    void fill(Slot& slot, std::int64_t block) {
        const std::size_t row = static_cast<std::size_t>(options.sequence_length) + 1;
        const std::int64_t first = first_sample_of(options, block);
        for (std::int64_t index = 0; index < options.micro_batch; ++index)
            read_sample(first + index,
                        std::span(slot.tokens).subspan(static_cast<std::size_t>(index) * row, row));
    }

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            freed.wait(lock, [&] {
                return stopping || failed ||
                       next_to_read - consumed < static_cast<std::int64_t>(slots.size());
            });
            if (stopping || failed)
                return;
            const std::int64_t block = next_to_read++;
            Slot& slot = slot_of(block);
            lock.unlock();
            std::exception_ptr error;
            try {
                fill(slot, block);
            } catch (...) {
                error = std::current_exception();
            }
            lock.lock();
            slot.block = block;
            slot.error = error;
            if (error) {
                failed = true;
                freed.notify_all();
            }
            filled.notify_all();
        }
    }
};

Loader::Loader(ReadSample read_sample, const LoaderOptions& options) : state_(std::make_unique<State>()) {
    TRIREME_ASSERT(options.micro_batch > 0 && options.sequence_length > 0 && options.first_sample >= 0,
                   "micro-batch ", options.micro_batch, ", sequence length ", options.sequence_length,
                   ", first sample ", options.first_sample);
    TRIREME_ASSERT(options.data_parallel_rank >= 0 && options.data_parallel_rank < options.data_parallel_size,
                   "data-parallel rank ", options.data_parallel_rank, " of ", options.data_parallel_size);
    TRIREME_ASSERT(options.num_workers >= 0, options.num_workers, " workers");
    State& state = *state_;
    state.read_sample = std::move(read_sample);
    state.options = options;
    const int slots =
        options.num_workers == 0
            ? 1
            : std::max(options.blocks_ahead > 0 ? options.blocks_ahead + 1 : 4, 2 * options.num_workers);
    state.slots.resize(static_cast<std::size_t>(slots));
    for (State::Slot& slot : state.slots)
        slot.tokens.resize(static_cast<std::size_t>(options.micro_batch * (options.sequence_length + 1)));
    for (int worker = 0; worker < options.num_workers; ++worker)
        state.workers.emplace_back([&state] { state.work(); });
}

Loader::~Loader() = default;

std::int64_t Loader::first_sample_of(const LoaderOptions& options, std::int64_t block) {
    return options.first_sample +
           options.micro_batch * (block * options.data_parallel_size + options.data_parallel_rank);
}

std::span<const std::int32_t> Loader::next() {
    State& state = *state_;
    if (state.workers.empty()) {
        state.fill(state.slots.front(), state.next_to_read);
        ++state.next_to_read;
        return state.slots.front().tokens;
    }
    std::unique_lock lock(state.mutex);
    if (state.delivered)
        std::rethrow_exception(state.delivered);
    // The block handed out by the last call, number next_due - 1, is free from now on.
    const std::int64_t due = state.next_due++;
    state.consumed = due;
    state.freed.notify_all();
    State::Slot& slot = state.slot_of(due);
    state.filled.wait(lock, [&] { return slot.block == due || (state.failed && state.next_to_read <= due); });
    if (slot.block != due || slot.error) {
        std::exception_ptr error = slot.error;
        for (State::Slot& other : state.slots)
            error = error ? error : other.error;
        state.delivered = error;
        std::rethrow_exception(error);
    }
    return slot.tokens;
}

} // namespace trireme::data
