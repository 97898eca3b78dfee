// What `trireme plan` says of one layout: memory by stage and item, and with a machine the time of a step.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "trireme/memory/plan.hpp"
#include "trireme/plan/cost.hpp"
#include "trireme/plan/declared_rank.hpp"

namespace trireme::plan {

// The memory of a rank of one stage; its tensor and data ranks take the same.
struct StageMemory {
    std::array<std::int64_t, memory::kCategories> bytes{}; // by memory::Category
    std::int64_t total = 0;
    std::int64_t stage_parameters = 0; // logical ones of the stage, each once
    std::int64_t rank_parameters = 0;  // of the rank, with padding
};
StageMemory declare_stage(const RunSetup& setup, int stage, const DeviceKind& on,
                          const topology::Schedule& schedule);
std::vector<StageMemory> declare_stages(const RunSetup& setup, const DeviceKind& on);
std::size_t fullest(const std::vector<StageMemory>& stages);

// Bytes that a rank can plan with on a GPU of that machine.
std::int64_t room_bytes(const Machine& machine);
// Throws Error (device) if the entries of a plan that are not taken yet need more than there is: with the
// largest categories and the options that shrink them. `who`: "a rank of stage 3".
void require_room(const memory::Plan& plan, std::int64_t taken_bytes, std::int64_t available_bytes,
                  const std::string& who);
// Throws Error (device) if the fullest stage needs more: with its largest items and the options that shrink
// them.
void require_room(const RunSetup& setup, const std::vector<StageMemory>& stages, const Machine& machine);

// The lines layout, model and memory; `machine` may be null.
std::string describe_plan(const RunSetup& setup, const std::vector<StageMemory>& stages,
                          const Machine* machine);
// What a training of that many steps takes, with each of them as predicted.
std::string describe_budget(const RunSetup& setup, const Prediction& prediction, std::int64_t steps);
std::string describe_time(const RunSetup& setup, const Machine& machine, const Prediction& prediction);

} // namespace trireme::plan
