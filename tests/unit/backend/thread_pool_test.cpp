// The pool: every index once, in chunks cut by the grain alone; exceptions reach the caller; many small jobs
// in a row.
#include "backend/cpu/thread_pool.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::backend {
namespace {

TEST(ThreadPool, VisitsEveryIndexOnceInFixedChunks) {
    for (const int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.threads(), threads);
        for (const std::int64_t count : {0, 1, 6, 7, 8, 1001}) {
            std::vector<int> visits(static_cast<std::size_t>(count), 0);
            std::vector<int> workers(static_cast<std::size_t>(count), -1);
            pool.parallel_for(count, 7, [&](std::int64_t begin, std::int64_t end, int worker) {
                EXPECT_EQ(begin % 7, 0);
                EXPECT_EQ(end, std::min<std::int64_t>(count, begin + 7));
                for (std::int64_t i = begin; i < end; ++i) {
                    ++visits[static_cast<std::size_t>(i)];
                    workers[static_cast<std::size_t>(i)] = worker;
                }
            });
            for (const int times : visits)
                EXPECT_EQ(times, 1);
            for (const int worker : workers)
                EXPECT_TRUE(worker >= 0 && worker < threads) << worker;
        }
    }
}

TEST(ThreadPool, ManySmallJobsAddUp) {
    ThreadPool pool(3);
    std::vector<std::int64_t> sums(16, 0);
    for (std::int64_t job = 1; job <= 2000; ++job)
        pool.parallel_for(
            16, 1, [&](std::int64_t i, std::int64_t, int) { sums[static_cast<std::size_t>(i)] += job; });
    for (const std::int64_t sum : sums)
        EXPECT_EQ(sum, 2000 * 2001 / 2);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
    ThreadPool pool(2);
    for (int round = 0; round < 3; ++round) {
        std::string caught;
        try {
            pool.parallel_for(50, 1, [](std::int64_t i, std::int64_t, int) {
                if (i == 41)
                    throw std::runtime_error("chunk 41");
            });
        } catch (const std::runtime_error& error) {
            caught = error.what();
        }
        EXPECT_EQ(caught, "chunk 41");
    }
}

} // namespace
} // namespace trireme::backend
