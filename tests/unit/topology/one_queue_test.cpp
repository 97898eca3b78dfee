// GPUs whose streams share one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1): what the host issues is begun
// in that order, and work that waits for other work of its stream, or for an event, holds up all behind it. A
// message is a kernel on each side that ends when both have begun. Issued as pipeline/executor.cpp and
// comm/nccl do, all schedules come to their end even so, except interleaved ones of another number of
// micro-batches than a multiple of the stages, which train/configure.cpp therefore refuses to run with few
// queues.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

// Two directions of messages, each with a stream for sends and one for receives, beside the compute stream.
enum Stream { compute, forward_sends, forward_receives, backward_sends, backward_receives, kStreams };

struct Work {
    std::vector<std::size_t> needs; // work of this rank that must have ended
    Stream stream = compute;        // other than compute: a message
    int message = 0;                // number on its stream
};

// What one rank issues.
class Issuer {
  public:
    Issuer(const Schedule& schedule, int stage) : schedule_(schedule), stage_(stage) {
        for (const Instruction& instruction : schedule.ranks[static_cast<std::size_t>(stage)])
            issue(instruction);
    }
    std::vector<Work> work;

  private:
    using Key = std::pair<int, int>; // chunk, slot
    std::size_t put(Stream stream, std::vector<std::size_t> needs) {
        if (last_[stream])
            needs.push_back(*last_[stream]);
        work.push_back({std::move(needs), stream, messages_[stream]++});
        last_[stream] = work.size() - 1;
        return work.size() - 1;
    }
    std::vector<std::size_t> computed() const {
        return last_[compute] ? std::vector{*last_[compute]} : std::vector<std::size_t>{};
    }
    // A wait of the compute stream for a message of that slot, if there is one.
    void wait_for(std::map<Key, std::size_t>& messages, const Key& key) {
        if (const auto message = messages.extract(key))
            put(compute, {message.mapped()});
    }

    void issue(const Instruction& at) {
        const auto stage = static_cast<std::size_t>(stage_), chunk = static_cast<std::size_t>(at.chunk);
        const auto slot = [&](int count) { return Key{at.chunk, at.micro_batch % count}; };
        const auto number = Key{at.chunk, at.micro_batch};
        const auto gradient = [&] { return slot(kSendBuffers + schedule_.gradients_held[stage][chunk]); };
        switch (at.op) {
        case Op::receive_forward:
            inputs_[number] = put(forward_receives, computed());
            return;
        case Op::forward:
            wait_for(inputs_, number);
            wait_for(output_sends_, slot(kSendBuffers));
            put(compute, {});
            return;
        case Op::send_forward:
            output_sends_[slot(kSendBuffers)] = put(forward_sends, computed());
            return;
        case Op::receive_backward:
            wait_for(gradient_sends_, gradient());
            gradients_[number] = put(backward_receives, computed());
            return;
        case Op::backward:
        case Op::input_gradient:
            wait_for(gradients_, number);
            wait_for(gradient_sends_, gradient());
            put(compute, {});
            return;
        case Op::weight_gradient:
            put(compute, {});
            return;
        case Op::send_backward:
            gradient_sends_[gradient()] = put(backward_sends, computed());
            return;
        case Op::reduce_gradients:
            return;
        }
    }

    const Schedule& schedule_;
    int stage_;
    std::array<std::optional<std::size_t>, kStreams> last_;
    std::array<int, kStreams> messages_{};
    std::map<Key, std::size_t> inputs_, gradients_, output_sends_, gradient_sends_; // not yet waited for
};

// Whether all ranks come to their end.
bool ends(const Schedule& schedule) {
    const auto stages = static_cast<std::size_t>(schedule.stages);
    std::vector<Issuer> ranks;
    for (int stage = 0; stage < schedule.stages; ++stage)
        ranks.emplace_back(schedule, stage);
    std::vector<std::vector<char>> ended(stages);
    for (std::size_t rank = 0; rank < stages; ++rank)
        ended[rank].resize(ranks[rank].work.size());
    // (sender, direction, number) -> work that has begun and waits for its other side.
    std::map<std::tuple<std::size_t, bool, int>, std::pair<std::size_t, std::size_t>> half;
    std::vector<std::size_t> head(stages, 0);
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t rank = 0; rank < stages; ++rank) {
            const std::vector<Work>& work = ranks[rank].work;
            const auto ready = [&] {
                return head[rank] < work.size() &&
                       std::ranges::all_of(work[head[rank]].needs,
                                           [&](std::size_t need) { return ended[rank][need] != 0; });
            };
            for (; ready(); ++head[rank], moved = true) {
                const Work& now = work[head[rank]];
                if (now.stream == compute) {
                    ended[rank][head[rank]] = 1;
                    continue;
                }
                const bool sends = now.stream == forward_sends || now.stream == backward_sends,
                           forward = now.stream == forward_sends || now.stream == forward_receives;
                const std::size_t before = (rank + stages - 1) % stages, after = (rank + 1) % stages;
                const std::tuple key{sends ? rank : forward ? before : after, forward, now.message};
                if (const auto other = half.find(key); other != half.end()) {
                    ended[other->second.first][other->second.second] = 1;
                    ended[rank][head[rank]] = 1;
                } else {
                    half[key] = {rank, head[rank]};
                }
            }
        }
    }
    for (std::size_t rank = 0; rank < stages; ++rank)
        if (head[rank] < ranks[rank].work.size() || std::ranges::count(ended[rank], 0) > 0)
            return false;
    return true;
}

TEST(OneHardwareQueue, SchedulesEnd) {
    for (int stages = 2; stages <= 8; ++stages)
        for (int micro_batches = 1; micro_batches <= 24; ++micro_batches) {
            SCOPED_TRACE(concat(stages, " stages, ", micro_batches, " micro-batches"));
            for (const ScheduleKind kind :
                 {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
                EXPECT_TRUE(ends(make_schedule(kind, stages, micro_batches, 1))) << name(kind);
            for (int chunks = 1; chunks <= 4; ++chunks) {
                EXPECT_TRUE(ends(make_forward_schedule(stages, micro_batches, chunks))) << chunks;
                if (chunks > 1 && micro_batches % stages == 0) {
                    EXPECT_TRUE(ends(make_schedule(ScheduleKind::interleaved, stages, micro_batches, chunks)))
                        << chunks << " chunks";
                }
            }
        }
}

TEST(OneHardwareQueue, UnevenGroupsOfAnInterleavedScheduleHang) {
    EXPECT_FALSE(ends(make_schedule(ScheduleKind::interleaved, 2, 3, 2)));
}

} // namespace
} // namespace trireme::topology
