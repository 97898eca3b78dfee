// A machine as the cost model knows it: how fast its devices multiply and move bytes, how fast its links and
// its network are. Nothing here belongs to a model or a run. A file holds one `name = number` a line, `#`
// begins a comment; the presets are such files, with the source of each rate beside it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::plan {

struct Machine {
    std::string name;
    double gpus_per_node = 0;
    double memory_gib = 0;    // of a GPU, as its driver reports it
    double allowance_gib = 0; // of that, taken by CUDA's context, libraries and NCCL
    double peak_tflops = 0;   // bf16, dense: what MFU is counted against

    // A product takes flops / rate + bytes / memory rate: what is left beside the memory's share.
    double matmul_tflops = 0;      // bf16 and fp16
    double matmul_fp32_tflops = 0; // fp32 without TF32
    // Fused attention, visible scores counted: rate * T / (T + half_length) * D / (D + half_head).
    double attention_forward_tflops = 0;
    double attention_gradient_tflops = 0;
    double attention_half_length = 0;
    double attention_half_head = 0;
    double memory_gb_per_s = 0; // read and written
    double kernel_us = 0;       // of each operation, beside its work

    // Bus bandwidth of collectives, and what each takes beside its bytes.
    double nvlink_gb_per_s = 0; // a GPU, inside a node
    double nvlink_us = 0;
    double network_gb_per_s = 0; // a GPU's share of its node's adapters
    double network_us = 0;
    // Of the time of a transfer over NVLink beside a pass: the share by which the pass takes longer, since
    // both want multiprocessors. Slower links take fewer of them.
    double overlap_loss = 0;
};

std::vector<std::string_view> machine_presets(); // names

// A preset by its name, else the file of that name. Throws Error (usage): no such machine, a key that is
// unknown, missing, twice or no positive number; with all keys and what they mean.
Machine find_machine(const std::string& name_or_file);
// `where` for messages.
Machine read_machine(std::string_view text, const std::string& where);

} // namespace trireme::plan
