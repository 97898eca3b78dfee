// The checker. Four steps, each relying on those before: numbers in range; each rank's list on its own (what
// is computed, in which order, within which slots); sends against receives on each channel; then a replay
// that must reach the end. Step two shows that each rank's own inputs exist, the replay that the other ranks'
// do.
#include <algorithm>
#include <array>

#include "replay.hpp"
#include "schedule_parts.hpp"
#include "trireme/base/error.hpp"

namespace trireme::topology {

namespace {

std::size_t index(int n) {
    return static_cast<std::size_t>(n);
}

[[noreturn]] void violation(const Schedule& schedule, const std::string& what,
                            std::vector<std::string> details = {}) {
    throw Error(ErrorCategory::internal,
                concat("the ", name(schedule.kind), " schedule of ", schedule.stages, " stages, ",
                       schedule.micro_batches, " micro-batches and ", schedule.chunks,
                       " chunks is wrong: ", what),
                std::move(details));
}

void check_numbers(const Schedule& schedule) {
    if (schedule.stages < 1 || schedule.micro_batches < 1 || schedule.chunks < 1)
        violation(schedule, "a count below one");
    if (schedule.ranks.size() != index(schedule.stages))
        violation(schedule, concat(schedule.ranks.size(), " lists"));
    for (const auto* bounds : {&schedule.in_flight, &schedule.inputs_held, &schedule.gradients_held})
        if (bounds->size() != index(schedule.stages))
            violation(schedule, concat(bounds->size(), " stages have bounds"));
    for (int s = 0; s < schedule.stages; ++s) {
        for (const auto* bounds : {&schedule.in_flight, &schedule.inputs_held, &schedule.gradients_held})
            if ((*bounds)[index(s)].size() != index(schedule.chunks))
                violation(schedule,
                          concat("stage ", s, " has bounds of ", (*bounds)[index(s)].size(), " chunks"));
        for (const Instruction& i : schedule.ranks[index(s)]) {
            const bool is_micro_batch = i.op == Op::reduce_gradients
                                            ? i.micro_batch == -1
                                            : i.micro_batch >= 0 && i.micro_batch < schedule.micro_batches;
            if (!is_micro_batch || i.chunk < 0 || i.chunk >= schedule.chunks || i.op > Op::reduce_gradients)
                violation(schedule, concat("stage ", s, " has ", text(i), ", which does not exist"));
        }
    }
}

// What one rank has done so far. Micro-batches are numbered in ascending order in every sequence, so that a
// count is also the next micro-batch expected.
class RankState {
  public:
    RankState(const Schedule& schedule, int stage, Passes passes)
        : schedule_(schedule), stage_(stage), passes_(passes), counts_(index(schedule.chunks)) {}

    void run() {
        for (const Instruction& instruction : schedule_.ranks[index(stage_)])
            take(instruction);
        finish();
    }

  private:
    static constexpr std::size_t kOps = 9;
    struct Counts {
        std::array<int, kOps> done{};
        int of(Op op) const { return done[static_cast<std::size_t>(op)]; }
        int differentiated() const { return of(Op::backward) + of(Op::input_gradient); }
    };

    int finished(const Counts& chunk) const {
        return passes_ == Passes::forward_only ? chunk.of(Op::forward)
                                               : chunk.of(Op::backward) + chunk.of(Op::weight_gradient);
    }

    [[noreturn]] void wrong(const Instruction& instruction, const std::string& why) const {
        violation(schedule_, concat("stage ", stage_, ", ", text(instruction), ": ", why));
    }
    // The text is put together only when it is needed: a sweep over all counts meets millions of rules.
    template <class... Parts>
    void require(bool holds, const Instruction& instruction, const Parts&... why) const {
        if (!holds)
            wrong(instruction, concat(why...));
    }

    void take(const Instruction& i) {
        Counts& chunk = counts_[index(i.chunk)];
        const Piece piece{stage_, i.chunk};
        const int m = i.micro_batch;
        if (i.op != Op::reduce_gradients) {
            const int expected = gives_input_gradient(i.op) ? chunk.differentiated() : chunk.of(i.op);
            require(m == expected, i, "micro-batch ", expected, " is next");
        }
        if (is_compute(i.op) && has_pending_)
            wrong(i, concat("comes before ", text(pending_)));

        switch (i.op) {
        case Op::receive_forward:
            require(receives(Op::forward, piece, schedule_.stages, schedule_.chunks), i, "nobody sends it");
            require_slot(i, chunk, schedule_.inputs_held, "input");
            break;
        case Op::receive_backward:
            require(receives(Op::backward, piece, schedule_.stages, schedule_.chunks), i, "nobody sends it");
            require(m < chunk.of(Op::forward), i, "comes before its forward");
            require_slot(i, chunk, schedule_.gradients_held, "gradient");
            break;
        case Op::forward:
            require_slot(i, chunk, schedule_.in_flight, "activation");
            require_input(i, Op::receive_forward);
            if (schedule_.stages == 1 && i.chunk > 0)
                require(m < counts_[index(i.chunk - 1)].of(Op::forward), i,
                        "comes before that of the chunk before");
            break;
        case Op::backward:
        case Op::input_gradient:
            require(chunk.of(i.op == Op::backward ? Op::input_gradient : Op::backward) == 0, i,
                    "both whole and halved backwards");
            require(m < chunk.of(Op::forward), i, "comes before its forward");
            require_input(i, Op::receive_backward);
            require_slot(i, chunk, schedule_.gradients_held, "gradient");
            if (schedule_.stages == 1 && i.chunk + 1 < schedule_.chunks)
                require(m < counts_[index(i.chunk + 1)].differentiated(), i,
                        "comes before that of the chunk after");
            break;
        case Op::weight_gradient:
            require(m < chunk.of(Op::input_gradient), i, "comes before its input_gradient");
            break;
        case Op::send_forward:
        case Op::send_backward:
            require(has_pending_ && pending_ == i, i, "does not follow the compute that it sends");
            has_pending_ = false;
            break;
        case Op::reduce_gradients:
            require(chunk.of(i.op) == 0, i, "comes twice");
            require(finished(chunk) == schedule_.micro_batches, i, "only ", finished(chunk),
                    " micro-batches are finished");
            break;
        }
        ++chunk.done[static_cast<std::size_t>(i.op)];
        if (is_compute(i.op) && sends(i.op, piece, schedule_.stages, schedule_.chunks)) {
            has_pending_ = true;
            pending_ = {i.op == Op::forward ? Op::send_forward : Op::send_backward, m, i.chunk};
        }
    }

    void require_input(const Instruction& i, Op receive) const {
        if (receives(i.op, {stage_, i.chunk}, schedule_.stages, schedule_.chunks))
            require(i.micro_batch < counts_[index(i.chunk)].of(receive), i, "its receive is not posted");
    }

    // With slots used round-robin, that of this micro-batch is free.
    void require_slot(const Instruction& i, const Counts& chunk, const std::vector<std::vector<int>>& bounds,
                      const char* kind) const {
        const int bound = bounds[index(stage_)][index(i.chunk)];
        require(i.micro_batch - finished(chunk) < bound, i, "no ", kind, " slot is free: micro-batch ",
                finished(chunk), " is not finished, the bound is ", bound);
    }

    void finish() const {
        if (has_pending_)
            violation(schedule_, concat("stage ", stage_, " ends before ", text(pending_)));
        for (int c = 0; c < schedule_.chunks; ++c) {
            const Counts& chunk = counts_[index(c)];
            const auto complain = [&](const char* what, int done) {
                violation(schedule_, concat("stage ", stage_, ", chunk ", c, ": ", what, " of ", done, " of ",
                                            schedule_.micro_batches, " micro-batches"));
            };
            if (chunk.of(Op::forward) != schedule_.micro_batches)
                complain("forward", chunk.of(Op::forward));
            if (passes_ == Passes::forward_only) {
                if (chunk.differentiated() + chunk.of(Op::weight_gradient) + chunk.of(Op::reduce_gradients) >
                    0)
                    violation(schedule_,
                              concat("stage ", stage_, ", chunk ", c, ": gradients in a forward pass"));
                continue;
            }
            if (chunk.differentiated() != schedule_.micro_batches)
                complain("input gradient", chunk.differentiated());
            if (finished(chunk) != schedule_.micro_batches)
                complain("weight gradient", finished(chunk));
            if (chunk.of(Op::reduce_gradients) != 1)
                violation(schedule_, concat("stage ", stage_, ", chunk ", c, ": no reduce_gradients"));
        }
    }

    const Schedule& schedule_;
    int stage_;
    Passes passes_;
    std::vector<Counts> counts_;
    bool has_pending_ = false; // a compute has run whose send has not started
    Instruction pending_{};
};

// Message k that leaves `stage` in one direction must be the one that receive k at the other end expects.
void check_channel(const Schedule& schedule, int stage, bool forward) {
    const int p = schedule.stages;
    const int peer = forward ? (stage + 1) % p : (stage + p - 1) % p;
    std::vector<Instruction> sent, expected;
    for (const Instruction& i : schedule.ranks[index(stage)])
        if (i.op == (forward ? Op::send_forward : Op::send_backward))
            sent.push_back(i);
    for (const Instruction& i : schedule.ranks[index(peer)])
        if (i.op == (forward ? Op::receive_forward : Op::receive_backward)) {
            const Piece from = forward ? previous({peer, i.chunk}, p) : next({peer, i.chunk}, p);
            expected.push_back({forward ? Op::send_forward : Op::send_backward, i.micro_batch, from.chunk});
        }
    for (std::size_t k = 0; k < std::max(sent.size(), expected.size()); ++k)
        if (k >= sent.size() || k >= expected.size() || !(sent[k] == expected[k]))
            violation(schedule, concat("message ", k, " from stage ", stage, " to stage ", peer, ": sent is ",
                                       k < sent.size() ? text(sent[k]) : "nothing", ", received is ",
                                       k < expected.size() ? text(expected[k]) : "nothing"));
}

} // namespace

void check(const Schedule& schedule, Passes passes) {
    check_numbers(schedule);
    for (int s = 0; s < schedule.stages; ++s)
        RankState(schedule, s, passes).run();
    for (int s = 0; s < schedule.stages; ++s)
        for (const bool forward : {true, false})
            check_channel(schedule, s, forward);
    const std::vector<std::vector<PieceCost>> costs(index(schedule.stages),
                                                    std::vector<PieceCost>(index(schedule.chunks)));
    const Replay played = replay(schedule, costs);
    if (!played.is_complete)
        violation(schedule, "it deadlocks", played.waits);
}

} // namespace trireme::topology
