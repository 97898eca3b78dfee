// The machines that come with the program, as texts of machine files.
#pragma once

#include <span>
#include <string_view>

namespace trireme::plan {

struct MachinePreset {
    std::string_view name;
    std::string_view text;
};
std::span<const MachinePreset> presets();

} // namespace trireme::plan
