// The threads of one rank. parallel_for cuts [0, count) into chunks of a size that never depends on the
// number of threads; who runs a chunk is left to chance, so a body may only write what belongs to its chunk,
// and the same inputs then give the same bits on 1, 2 or 64 threads. Waiting spins briefly and then sleeps:
// ranks often share cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme::backend {

class ThreadPool {
  public:
    explicit ThreadPool(int threads); // the calling thread counts as one
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;
    ~ThreadPool();

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    // body(begin, end, worker) for [0, grain), [grain, 2 grain), ...; worker in [0, threads()) owns scratch
    // memory. Returns when all is done; the first exception of a body is rethrown then. One caller at a time,
    // never nested.
    template <class Body>
    void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
        run(count, grain, &call<Body>, &body);
    }

  private:
    using Call = void (*)(const void* body, std::int64_t begin, std::int64_t end, int worker);
    template <class Body>
    static void call(const void* body, std::int64_t begin, std::int64_t end, int worker) {
        (*static_cast<const Body*>(body))(begin, end, worker);
    }
    struct Job {
        Call call = nullptr;
        const void* body = nullptr;
        std::int64_t count = 0, grain = 0, chunks = 0;
    };

    void run(std::int64_t count, std::int64_t grain, Call chunk, const void* body);
    void work_on_chunks(int worker);
    void worker_main(int worker);

    Job job_;                                // valid from the store of unclaimed_ until pending_ is 0
    std::atomic<std::int64_t> unclaimed_{0}; // chunks nobody has taken yet
    std::atomic<std::int64_t> pending_{0};   // chunks not finished yet
    std::atomic<int> epoch_{0};              // one more for each job: what sleepers watch
    std::atomic<int> finished_epoch_{0};     // what a sleeping caller watches
    std::atomic<bool> stop_{false};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::vector<std::thread> workers_;
};

} // namespace trireme::backend
