// Names of instructions and schedules, and the choice of the generator.
#include "trireme/topology/schedule.hpp"

#include "schedule_parts.hpp"
#include "trireme/base/error.hpp"

namespace trireme::topology {

std::string_view name(Op op) {
    switch (op) {
    case Op::receive_forward:
        return "receive_forward";
    case Op::forward:
        return "forward";
    case Op::send_forward:
        return "send_forward";
    case Op::receive_backward:
        return "receive_backward";
    case Op::backward:
        return "backward";
    case Op::input_gradient:
        return "input_gradient";
    case Op::weight_gradient:
        return "weight_gradient";
    case Op::send_backward:
        return "send_backward";
    case Op::reduce_gradients:
        return "reduce_gradients";
    }
    return "unknown";
}

std::string_view name(ScheduleKind kind) {
    switch (kind) {
    case ScheduleKind::gpipe:
        return "gpipe";
    case ScheduleKind::one_f_one_b:
        return "1f1b";
    case ScheduleKind::interleaved:
        return "interleaved";
    case ScheduleKind::zb_h1:
        return "zb-h1";
    }
    return "unknown";
}

std::string text(const Instruction& instruction) {
    if (instruction.op == Op::reduce_gradients)
        return concat(name(instruction.op), " of chunk ", instruction.chunk);
    return concat(name(instruction.op), " of micro-batch ", instruction.micro_batch, ", chunk ",
                  instruction.chunk);
}

namespace {

void require_counts(int stages, int micro_batches, int chunks) {
    if (stages < 1 || micro_batches < 1 || chunks < 1)
        throw Error(
            ErrorCategory::usage,
            concat("a pipeline schedule needs at least one stage, one micro-batch and one chunk, not ",
                   stages, ", ", micro_batches, " and ", chunks));
}

} // namespace

Schedule make_forward_schedule(int stages, int micro_batches, int chunks) {
    require_counts(stages, micro_batches, chunks);
    return with_transfers(chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::gpipe, stages, micro_batches,
                          chunks, forward_order(stages, micro_batches, chunks), Passes::forward_only);
}

Schedule make_schedule(ScheduleKind kind, int stages, int micro_batches, int chunks) {
    require_counts(stages, micro_batches, chunks);
    if (chunks > 1 && kind != ScheduleKind::interleaved)
        throw Error(ErrorCategory::usage,
                    concat("the ", name(kind), " schedule runs one model chunk a stage, not ", chunks),
                    {"try: the interleaved schedule, or leave --num-layers-per-virtual-pipeline-stage out"});
    const auto complete = [&](const ComputeOrder& order, int group = 1) {
        return with_transfers(kind, stages, micro_batches, chunks, order, Passes::forward_and_backward,
                              group);
    };
    switch (kind) {
    case ScheduleKind::gpipe:
        return complete(gpipe_order(stages, micro_batches));
    case ScheduleKind::one_f_one_b:
        return complete(one_f_one_b_order(stages, micro_batches));
    case ScheduleKind::interleaved:
        return complete(interleaved_order(stages, micro_batches, chunks),
                        largest_group(stages, micro_batches));
    case ScheduleKind::zb_h1:
        return complete(zb_h1_order(stages, micro_batches));
    }
    throw Error(ErrorCategory::internal, concat("no schedule has the number ", static_cast<int>(kind)));
}

} // namespace trireme::topology
