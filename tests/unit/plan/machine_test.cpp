// Machine files: what they hold, and each way to get one wrong.
#include <gtest/gtest.h>

#include "trireme/base/error.hpp"
#include "trireme/plan/machine.hpp"

namespace trireme::plan {
namespace {

std::string file() {
    return "# a machine\n gpus_per_node = 4\nmemory_gib=80\nallowance_gib = 2 # much\npeak_tflops = 3.12e2\n"
           "matmul_tflops = 250\nmatmul_fp32_tflops = 17\nattention_forward_tflops = 200\n"
           "attention_gradient_tflops = 150\nattention_half_length = 300\nattention_half_head = 39\n"
           "memory_gb_per_s = 1700\nkernel_us = 4\nnvlink_gb_per_s = 230\nnvlink_us = 25\n"
           "network_gb_per_s = 20\nnetwork_us = 40\noverlap_loss = 0.5";
}

std::string message(const std::string& text) {
    try {
        read_machine(text, "mine.cfg");
    } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), 2);
        return error.message();
    }
    return "none";
}

TEST(Machine, IsReadFromAFile) {
    const Machine machine = read_machine(file(), "there/mine.cfg");
    EXPECT_EQ(machine.name, "mine");
    EXPECT_EQ(machine.gpus_per_node, 4);
    EXPECT_EQ(machine.peak_tflops, 312);
    EXPECT_EQ(machine.allowance_gib, 2);
    EXPECT_EQ(machine.network_us, 40);
    EXPECT_EQ(machine.overlap_loss, 0.5);
}

TEST(Machine, WrongFilesSayWhereAndWhichKeysThereAre) {
    EXPECT_NE(message(file() + "\nspeed = 3").find("mine.cfg:19: there is no key speed"), std::string::npos);
    EXPECT_NE(message(file() + "\nkernel_us = 3").find("kernel_us stands twice"), std::string::npos);
    for (const char* value : {"0", "-1", "fast", "", "1 2", "nan", "inf"})
        EXPECT_NE(message(concat("kernel_us = ", value)).find(concat("kernel_us is '", value, "'")),
                  std::string::npos)
            << value;
    const std::string empty = message("");
    EXPECT_NE(empty.find("mine.cfg: matmul_tflops is missing"), std::string::npos);
    EXPECT_NE(empty.find("  nvlink_us: latency of a collective inside a node"), std::string::npos);
    std::string parts = file();
    parts.replace(parts.find("= 4\n"), 4, "= 4.5\n");
    EXPECT_NE(message(parts).find("gpus_per_node is not a whole number"), std::string::npos);
}

TEST(Machine, PresetsAreComplete) {
    EXPECT_EQ(machine_presets(), (std::vector<std::string_view>{"a100-80gb", "h100", "h200"}));
    for (const std::string_view name : machine_presets()) {
        const Machine machine = find_machine(std::string(name));
        EXPECT_EQ(machine.name, name);
        EXPECT_LT(machine.matmul_tflops, machine.peak_tflops); // what is reached lies below the specification
    }
}

TEST(Machine, UnknownOnesNameThePresets) {
    try {
        find_machine("cray-1");
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(error.message().find("a100-80gb, h100, h200"), std::string::npos) << error.message();
    }
}

} // namespace
} // namespace trireme::plan
