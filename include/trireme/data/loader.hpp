// Reads a rank's micro-batches ahead of training, in order, with threads of its own.
//
// Which samples: every micro_batch * data_parallel_size consecutive samples are one micro-batch of each rank,
// rank r taking the r-th piece. So the set of samples of a global batch does not depend on the layout.
// Example: first_sample 8, micro_batch 2, 2 ranks: rank 0 reads (8, 9), (12, 13), ... and rank 1 reads (10,
// 11), (14, 15), ...
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace trireme::data {

struct LoaderOptions {
    std::int64_t first_sample = 0; // samples consumed so far by all ranks
    std::int64_t micro_batch = 1;
    std::int64_t data_parallel_rank = 0;
    std::int64_t data_parallel_size = 1;
    std::int64_t sequence_length = 0;
    int num_workers = 2;  // 0: read in next()
    int blocks_ahead = 0; // how many micro-batches may wait; 0: twice the workers, at least 4
};

class Loader {
  public:
    // Fills tokens [sequence_length + 1] with a sample; called by the workers at the same time.
    using ReadSample = std::function<void(std::int64_t sample, std::span<std::int32_t> tokens)>;

    Loader(ReadSample read_sample, const LoaderOptions& options);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    // The next micro-batch: [micro_batch, sequence_length + 1], one sample a row; valid until the next call.
    // An error met while reading it ahead is thrown here.
    std::span<const std::int32_t> next();

    // The first sample of this rank's micro-batch number `block`, counted from 0.
    static std::int64_t first_sample_of(const LoaderOptions& options, std::int64_t block);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace trireme::data
