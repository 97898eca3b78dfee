// The rules of replay.hpp, rank by rank until nothing moves.
#include "replay.hpp"

#include <algorithm>

#include "schedule_parts.hpp"
#include "trireme/base/error.hpp"

namespace trireme::topology {

namespace {

// One direction out of one stage: message k is the k-th send of its sender and the k-th receive of its
// receiver.
struct Channel {
    std::vector<double> sent, seconds, posted, arrived;

    // Both ends there and the message before it through: the transfer takes place.
    void settle() {
        const std::size_t k = arrived.size();
        if (k < sent.size() && k < posted.size())
            arrived.push_back(std::max({sent[k], posted[k], k > 0 ? arrived[k - 1] : 0}) + seconds[k]);
    }
};

class Player {
  public:
    Player(const Schedule& schedule, const std::vector<std::vector<PieceCost>>& costs)
        : schedule_(schedule), costs_(costs), channels_(2 * count(schedule.stages)),
          message_(2 * count(schedule.stages)), clock_(count(schedule.stages)),
          position_(count(schedule.stages)) {
        const std::size_t pairs = count(schedule.micro_batches) * count(schedule.chunks);
        for (auto& messages : message_)
            messages.assign(pairs, 0);
    }

    Replay play() {
        Replay result;
        result.ranks.resize(count(schedule_.stages));
        for (bool moved = true; moved;) {
            moved = false;
            for (int s = 0; s < schedule_.stages; ++s)
                while (step(s, result.ranks[count(s)]))
                    moved = true;
        }
        result.is_complete = true;
        for (int s = 0; s < schedule_.stages; ++s)
            if (const auto& list = schedule_.ranks[count(s)]; position_[count(s)] < list.size()) {
                result.is_complete = false;
                step(s, result.ranks[count(s)]); // fails again and says why
                result.waits.push_back(concat("stage ", s, " waits before its instruction ",
                                              position_[count(s)], ", ", text(list[position_[count(s)]]),
                                              ", for ", wait_));
            }
        return result;
    }

  private:
    static std::size_t count(int n) { return static_cast<std::size_t>(n); }

    // The channel of a direction that leaves `stage`.
    std::size_t channel_from(int stage, bool forward) const { return 2 * count(stage) + (forward ? 0 : 1); }
    std::size_t channel_to(int stage, bool forward) const {
        const int p = schedule_.stages;
        return channel_from(forward ? (stage + p - 1) % p : (stage + 1) % p, forward);
    }

    double duration(const Instruction& instruction, int stage) const {
        const PieceCost& cost = costs_[count(stage)][count(instruction.chunk)];
        switch (instruction.op) {
        case Op::forward:
            return cost.forward;
        case Op::backward:
            return cost.input_gradient + cost.weight_gradient;
        case Op::input_gradient:
            return cost.input_gradient;
        case Op::weight_gradient:
            return cost.weight_gradient;
        default:
            return 0;
        }
    }

    // Runs the next instruction of a stage if it need not wait; else says in wait_ what it waits for.
    bool step(int stage, std::vector<TimedInstruction>& done) {
        const std::vector<Instruction>& list = schedule_.ranks[count(stage)];
        std::size_t& position = position_[count(stage)];
        if (position == list.size())
            return false;
        const Instruction& instruction = list[position];
        const Piece piece{stage, instruction.chunk};
        const std::size_t pair = count(instruction.chunk) * count(schedule_.micro_batches) +
                                 static_cast<std::size_t>(instruction.micro_batch);
        double& clock = clock_[count(stage)];

        if (is_compute(instruction.op)) {
            const bool forward = instruction.op == Op::forward;
            double start = clock;
            if (receives(instruction.op, piece, schedule_.stages, schedule_.chunks)) {
                const std::size_t in = channel_to(stage, forward);
                if (channels_[in].arrived.size() <= message_[in][pair]) {
                    wait_ = "its input";
                    return false;
                }
                start = std::max(start, channels_[in].arrived[message_[in][pair]]);
            }
            if (sends(instruction.op, piece, schedule_.stages, schedule_.chunks)) {
                const Channel& out = channels_[channel_from(stage, forward)];
                if (out.sent.size() >= count(kSendBuffers)) {
                    const std::size_t before = out.sent.size() - count(kSendBuffers);
                    if (out.arrived.size() <= before) {
                        wait_ = "a send buffer";
                        return false;
                    }
                    start = std::max(start, out.arrived[before]);
                }
            }
            clock = start + duration(instruction, stage);
            done.push_back({instruction, start, clock});
        } else if (instruction.op == Op::send_forward || instruction.op == Op::send_backward) {
            Channel& out = channels_[channel_from(stage, instruction.op == Op::send_forward)];
            out.seconds.push_back(costs_[count(stage)][count(instruction.chunk)].transfer);
            out.sent.push_back(clock);
            out.settle();
        } else if (instruction.op == Op::receive_forward || instruction.op == Op::receive_backward) {
            const std::size_t in = channel_to(stage, instruction.op == Op::receive_forward);
            message_[in][pair] = channels_[in].posted.size();
            channels_[in].posted.push_back(clock);
            channels_[in].settle();
        }
        ++position;
        return true;
    }

    const Schedule& schedule_;
    const std::vector<std::vector<PieceCost>>& costs_;
    std::vector<Channel> channels_;                 // [2 * sending stage + direction]
    std::vector<std::vector<std::size_t>> message_; // [channel][chunk, micro_batch]: number of its receive
    std::vector<double> clock_;                     // end of the last compute of each stage
    std::vector<std::size_t> position_;
    std::string wait_;
};

} // namespace

Replay replay(const Schedule& schedule, const std::vector<std::vector<PieceCost>>& costs) {
    return Player(schedule, costs).play();
}

} // namespace trireme::topology
