// A job is claimed before it is read: a worker that takes a chunk by lowering unclaimed_ knows that the
// caller cannot return before this chunk is done, so the description of the job stays valid. A worker that
// sleeps through a job costs nothing, because the caller takes chunks as well and waits for claimed ones
// only.
#include "backend/cpu/thread_pool.hpp"

#include <algorithm>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::backend {
namespace {

// Some tens of microseconds: the usual gap between two operations of a step, far below a time slice.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Returns when `watched` is no longer `old`.
void wait_for_change(std::atomic<int>& watched, int old) {
    for (int spin = 0; spin < kSpins; ++spin) {
        if (watched.load(std::memory_order_acquire) != old)
            return;
        relax();
    }
    watched.wait(old, std::memory_order_acquire);
}

} // namespace

ThreadPool::ThreadPool(int threads) {
    TRIREME_ASSERT(threads >= 1, threads, " threads");
    for (int worker = 1; worker < threads; ++worker)
        workers_.emplace_back([this, worker] { worker_main(worker); });
}

ThreadPool::~ThreadPool() {
    stop_.store(true);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& worker : workers_)
        worker.join();
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, Call chunk, const void* body) {
    TRIREME_ASSERT(grain > 0, "grain ", grain);
    const std::int64_t chunks = divide_round_up(count, grain);
    if (chunks <= 1 || workers_.empty()) {
        for (std::int64_t begin = 0; begin < count; begin += grain)
            chunk(body, begin, std::min(count, begin + grain), 0);
        return;
    }
    job_ = {chunk, body, count, grain, chunks};
    pending_.store(chunks, std::memory_order_relaxed);
    unclaimed_.store(chunks, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    work_on_chunks(0);
    for (;;) {
        // Read before pending_: whoever ends the job lowers pending_ first and changes this afterwards.
        const int finished = finished_epoch_.load(std::memory_order_acquire);
        if (pending_.load(std::memory_order_acquire) == 0)
            break;
        wait_for_change(finished_epoch_, finished);
    }
    if (failure_ != nullptr)
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work_on_chunks(int worker) {
    std::int64_t left = unclaimed_.load(std::memory_order_acquire);
    while (left > 0) {
        if (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                              std::memory_order_acquire))
            continue;
        const std::int64_t begin = (job_.chunks - left) * job_.grain;
        try {
            job_.call(job_.body, begin, std::min(job_.count, begin + job_.grain), worker);
        } catch (...) {
            const std::lock_guard lock(failure_mutex_);
            if (failure_ == nullptr)
                failure_ = std::current_exception();
        }
        if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            finished_epoch_.fetch_add(1, std::memory_order_release);
            finished_epoch_.notify_all();
        }
        left = unclaimed_.load(std::memory_order_acquire);
    }
}

void ThreadPool::worker_main(int worker) {
    while (!stop_.load(std::memory_order_acquire)) {
        const int seen = epoch_.load(std::memory_order_acquire);
        work_on_chunks(worker);
        if (!stop_.load(std::memory_order_acquire))
            wait_for_change(epoch_, seen);
    }
}

} // namespace trireme::backend
