// Setups and machines of the planner's tests.
#pragma once

#include "trireme/plan/machine.hpp"
#include "trireme/plan/run_setup.hpp"

namespace trireme::plan {

// GPT of `layers` layers, hidden 512, 8 heads, sequence 256, bf16, no dropout, one rank, one micro-batch
// of 2.
inline RunSetup small_setup(std::int64_t layers) {
    RunSetup setup;
    setup.model.layers = layers;
    setup.model.hidden = 512;
    setup.model.heads = setup.model.groups = 8;
    setup.model.head_dim = 64;
    setup.model.ffn = 2048;
    setup.model.vocabulary = 1024;
    setup.model.max_positions = setup.model.sequence = 256;
    setup.model.hidden_dropout = setup.model.attention_dropout = 0;
    setup.type = DType::bf16;
    setup.micro_batch = setup.global_batch = 2;
    return setup;
}

// Everything but what a test looks at takes no time.
inline Machine ideal_machine() {
    constexpr double kFast = 1e15, kSoon = 1e-12;
    Machine machine;
    machine.name = "ideal";
    machine.gpus_per_node = 8;
    machine.memory_gib = 80;
    machine.allowance_gib = 1;
    machine.peak_tflops = 1000;
    for (double Machine::*rate :
         {&Machine::matmul_tflops, &Machine::matmul_fp32_tflops, &Machine::attention_forward_tflops,
          &Machine::attention_gradient_tflops, &Machine::memory_gb_per_s, &Machine::nvlink_gb_per_s,
          &Machine::network_gb_per_s})
        machine.*rate = kFast;
    for (double Machine::*time : {&Machine::kernel_us, &Machine::nvlink_us, &Machine::network_us,
                                  &Machine::attention_half_length, &Machine::attention_half_head})
        machine.*time = kSoon;
    return machine;
}

} // namespace trireme::plan
