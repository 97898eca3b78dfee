// Inputs cut into blocks of lines that threads work on at the same time and hand over in the order of the
// inputs, so that results and the error that is reported do not depend on the number of threads. There is no
// queue and no writer thread: a worker takes a block, processes it, waits for its turn and delivers it.
//
// With 2 workers: A takes block 0 and B block 1; if B is done first it waits until A has delivered block 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/data/text_source.hpp"

namespace trireme::data {

struct InputBlock {
    LineBlock lines;
    std::string input_name;
    std::int64_t input_bytes_read = 0; // of all inputs, up to and with this block
    // All earlier blocks have been delivered, and no later one is read before this one has been: its worker
    // may add to the result while it works, instead of holding a result as large as the block in memory.
    bool has_turn = false;
};

// The state of one thread. An error of either call is reported when the turn of its block comes, and no later
// block is delivered.
class BlockWorker {
  public:
    virtual ~BlockWorker() = default;
    virtual void process(InputBlock& block) = 0;       // while other workers do the same
    virtual void deliver(const InputBlock& block) = 0; // after all earlier blocks, one worker at a time
    // After the delivery of a block of more than usual size: gives back what has grown with it.
    virtual void shrink() = 0;
};

// Processes and delivers all blocks of `inputs`, with `threads` threads, this one included. Blocks between
// input and delivery hold 8 MiB of text at most, or one block that has its turn, which bounds memory.
// Rethrows the error of the first block in order that has one; errors of reading and damaged input count as a
// block's.
void run_in_order(const std::vector<std::string>& inputs, int threads,
                  const std::function<std::unique_ptr<BlockWorker>()>& make_worker);

} // namespace trireme::data
