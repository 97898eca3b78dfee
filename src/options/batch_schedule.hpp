// --rampup-batch-size and --step-batch-size-schedule as a schedule of batches.
#pragma once

#include <optional>
#include <string>

#include "trireme/options/values.hpp"
#include "trireme/topology/batch_schedule.hpp"

namespace trireme::options {

// What is wrong with one of the two options by itself ("" if nothing), and what it says; `schedule` is empty
// if neither is given or something is wrong. A ramp ends at the global batch size, which must be there.
struct BatchScheduleText {
    std::string wrong;
    std::string cure;
    std::optional<topology::BatchSchedule> schedule;
};
BatchScheduleText read_batch_schedule(const Values& values);

} // namespace trireme::options
