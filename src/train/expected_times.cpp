// A guess at the first save.
#include "expected_times.hpp"

namespace trireme::train {

double unmeasured_save_seconds(const memory::Plan& plan, int ranks_on_node) {
    const std::int64_t bytes =
        plan.bytes(memory::Category::weights) + plan.bytes(memory::Category::optimizer);
    return static_cast<double>(bytes * ranks_on_node) / 500e6;
}

} // namespace trireme::train
