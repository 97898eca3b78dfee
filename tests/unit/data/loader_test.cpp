// The loader: every rank gets its samples in order, whatever the number of threads, and meets the errors of
// its workers.
#include "trireme/data/loader.hpp"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "data_test_support.hpp"

namespace trireme::data {
namespace {

// A sample is its own number and then a count: [n * 100, n * 100 + 1, ...].
void read_numbered(std::int64_t sample, std::span<std::int32_t> tokens) {
    for (std::size_t index = 0; index < tokens.size(); ++index)
        tokens[index] = static_cast<std::int32_t>(sample * 100 + static_cast<std::int64_t>(index));
    if (sample % 5 == 0) // later samples overtake this one
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Loader, GivesEachRankItsSamplesInOrder) {
    for (const int workers : {0, 1, 3})
        for (const std::int64_t micro_batch : {1, 2})
            for (const std::int64_t ranks : {1, 4}) {
                std::int64_t expected_sample = 16; // of all ranks, in the order in which a step consumes them
                std::vector<std::unique_ptr<Loader>> loaders;
                for (std::int64_t rank = 0; rank < ranks; ++rank)
                    loaders.push_back(
                        std::make_unique<Loader>(read_numbered, LoaderOptions{.first_sample = 16,
                                                                              .micro_batch = micro_batch,
                                                                              .data_parallel_rank = rank,
                                                                              .data_parallel_size = ranks,
                                                                              .sequence_length = 3,
                                                                              .num_workers = workers}));
                for (int step = 0; step < 20; ++step)
                    for (auto& loader : loaders) {
                        const std::span<const std::int32_t> block = loader->next();
                        ASSERT_EQ(static_cast<std::int64_t>(block.size()), micro_batch * 4);
                        for (std::int64_t row = 0; row < micro_batch; ++row, ++expected_sample)
                            for (std::int64_t token = 0; token < 4; ++token)
                                ASSERT_EQ(block[static_cast<std::size_t>(row * 4 + token)],
                                          expected_sample * 100 + token);
                    }
            }
}

TEST(Loader, ReadsAheadButNotFurtherThanItsSlots) {
    std::atomic<int> calls = 0;
    Loader loader([&](std::int64_t, std::span<std::int32_t>) { ++calls; },
                  {.sequence_length = 1, .num_workers = 1, .blocks_ahead = 3});
    loader.next();
    for (int wait = 0; wait < 2000 && calls < 4; ++wait)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(calls, 4); // the block in use and three ahead
}

TEST(Loader, PassesErrorsToTheCallerAtTheirPlace) {
    for (const int workers : {0, 1, 3}) {
        Loader loader(
            [](std::int64_t sample, std::span<std::int32_t> tokens) {
                if (sample == 7)
                    throw Error(ErrorCategory::data, "sample 7 is bad");
                tokens[0] = static_cast<std::int32_t>(sample);
            },
            {.sequence_length = 1, .num_workers = workers});
        for (std::int32_t sample = 0; sample < 7; ++sample)
            ASSERT_EQ(loader.next()[0], sample);
        EXPECT_NE(message_of([&] { loader.next(); }).find("sample 7 is bad"), std::string::npos);
        EXPECT_NE(message_of([&] { loader.next(); }).find("sample 7 is bad"), std::string::npos); // and again
    }
}

} // namespace
} // namespace trireme::data
