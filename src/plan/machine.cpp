// Reads machines: presets from machine_presets.cpp, others from files, by one table of keys.
#include "trireme/plan/machine.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "plan/machine_presets.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::plan {
namespace {

struct Key {
    const char* name;
    double Machine::*field;
    const char* meaning;
};

constexpr Key kKeys[] = {
    {"gpus_per_node", &Machine::gpus_per_node, "GPUs that share NVLink"},
    {"memory_gib", &Machine::memory_gib, "memory of a GPU"},
    {"allowance_gib", &Machine::allowance_gib, "of that, for CUDA's context and NCCL"},
    {"peak_tflops", &Machine::peak_tflops, "bf16 peak that MFU is counted against"},
    {"matmul_tflops", &Machine::matmul_tflops, "rate of bf16 products beside their memory traffic"},
    {"matmul_fp32_tflops", &Machine::matmul_fp32_tflops, "the same for fp32"},
    {"attention_forward_tflops", &Machine::attention_forward_tflops, "fused attention, long and wide"},
    {"attention_gradient_tflops", &Machine::attention_gradient_tflops, "its gradient"},
    {"attention_half_length", &Machine::attention_half_length, "sequence at which it has half that rate"},
    {"attention_half_head", &Machine::attention_half_head, "head dimension at which it has half that rate"},
    {"memory_gb_per_s", &Machine::memory_gb_per_s, "memory rate reached, reads and writes together"},
    {"kernel_us", &Machine::kernel_us, "time of an operation beside its work"},
    {"nvlink_gb_per_s", &Machine::nvlink_gb_per_s, "bus bandwidth of collectives inside a node"},
    {"nvlink_us", &Machine::nvlink_us, "latency of a collective inside a node"},
    {"network_gb_per_s", &Machine::network_gb_per_s, "bus bandwidth a GPU between nodes"},
    {"network_us", &Machine::network_us, "latency of a collective between nodes"},
    {"overlap_loss", &Machine::overlap_loss,
     "share of the time of a transfer over NVLink beside a pass that the pass loses to it"},
};

std::vector<std::string> all_keys() {
    std::vector<std::string> lines{"a machine file has one `name = number` a line, all of:"};
    for (const Key& key : kKeys)
        lines.push_back(concat("  ", key.name, ": ", key.meaning));
    return lines;
}

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

} // namespace

std::vector<std::string_view> machine_presets() {
    std::vector<std::string_view> names;
    for (const MachinePreset& preset : presets())
        names.push_back(preset.name);
    return names;
}

Machine read_machine(std::string_view text, const std::string& where) {
    Machine machine;
    machine.name = std::filesystem::path(where).stem().string();
    std::vector<std::string> wrong;
    std::set<std::string, std::less<>> seen;
    for (int number = 1; !text.empty(); ++number) {
        const auto end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line = trimmed(line.substr(0, line.find('#')));
        if (line.empty())
            continue;
        const auto equals = line.find('=');
        const std::string name{trimmed(line.substr(0, equals))};
        const std::string_view value =
            equals == std::string_view::npos ? std::string_view{} : trimmed(line.substr(equals + 1));
        const auto* const key = std::ranges::find_if(kKeys, [&](const Key& k) { return name == k.name; });
        double parsed = 0;
        const auto [rest, failure] = std::from_chars(value.data(), value.data() + value.size(), parsed);
        const std::string at = concat(where, ":", number, ": ");
        if (key == std::end(kKeys))
            wrong.push_back(concat(at, "there is no key ", name));
        else if (!seen.insert(name).second)
            wrong.push_back(concat(at, name, " stands twice"));
        else if (failure != std::errc{} || rest != value.data() + value.size() || !std::isfinite(parsed) ||
                 parsed <= 0)
            wrong.push_back(concat(at, name, " is '", value, "', not a number above 0"));
        else
            machine.*(key->field) = parsed;
    }
    for (const Key& key : kKeys)
        if (!seen.contains(key.name))
            wrong.push_back(concat(where, ": ", key.name, " is missing"));
    if (machine.gpus_per_node != std::floor(machine.gpus_per_node))
        wrong.push_back(concat(where, ": gpus_per_node is not a whole number"));
    if (machine.allowance_gib >= machine.memory_gib && seen.contains("memory_gib"))
        wrong.push_back(concat(where, ": allowance_gib leaves nothing of memory_gib"));
    if (wrong.empty())
        return machine;
    const std::string what = concat("the machine file ", where, " cannot be used");
    const std::vector<std::string> keys = all_keys();
    wrong.insert(wrong.end(), keys.begin(), keys.end());
    throw Error(ErrorCategory::usage, what, wrong);
}

Machine find_machine(const std::string& name_or_file) {
    for (const MachinePreset& preset : presets())
        if (name_or_file == preset.name)
            return read_machine(preset.text, std::string(preset.name));
    std::error_code ignored;
    if (std::filesystem::is_regular_file(name_or_file, ignored))
        return read_machine(read_file(name_or_file, ErrorCategory::usage), name_or_file);
    std::string names;
    for (const MachinePreset& preset : presets())
        names += concat(names.empty() ? "" : ", ", preset.name);
    throw Error(ErrorCategory::usage, concat("there is no machine ", name_or_file),
                {concat("--machine ", name_or_file, " is neither a preset nor a file"),
                 concat("try: --machine with one of ", names, ", or with a file of your own")});
}

} // namespace trireme::plan
