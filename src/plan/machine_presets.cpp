// Rates of common machines and where they come from. "Measured" is on our own benchmarks of an H200 (bf16,
// random data); "specification" the vendor's data sheet; "estimate" says what it was derived from.
#include "plan/machine_presets.hpp"

namespace trireme::plan {
namespace {

constexpr MachinePreset kPresets[] = {
    {"a100-80gb", R"(# DGX A100 80 GB (SXM4, 400 W), 8 GPUs a node, 8 x HDR InfiniBand of 200 Gb/s.
gpus_per_node = 8
memory_gib = 79.2              # as reported by the driver
allowance_gib = 1.5            # estimate: context and library kernels 0.5, NCCL 1
peak_tflops = 312              # specification
matmul_tflops = 240            # estimate: 0.89 of the 271 that the best of many shapes reaches (ml-engineering), as under lasting load
matmul_fp32_tflops = 17        # specification 19.5
attention_forward_tflops = 215 # estimate from the figures of the FlashAttention-2 paper
attention_gradient_tflops = 180
attention_half_length = 300
attention_half_head = 39       # as on the H200
memory_gb_per_s = 1780         # specification 2039; 0.87 of it, as a copy reaches
kernel_us = 4
nvlink_gb_per_s = 230          # all-reduce over 8 GPUs; specification 300 each way
nvlink_us = 25
network_gb_per_s = 20          # specification 25
network_us = 40
overlap_loss = 0.7             # as on the H200
)"},
    {"h100", R"(# DGX H100 80 GB (SXM5, 700 W), 8 GPUs a node, 8 x NDR InfiniBand of 400 Gb/s.
gpus_per_node = 8
memory_gib = 79.6
allowance_gib = 1.5
peak_tflops = 989.4            # specification, dense
matmul_tflops = 720            # estimate: 0.89 of what single products make on the H200, as under lasting load
matmul_fp32_tflops = 55        # specification 67
attention_forward_tflops = 900 # the H200's: bound by the same tensor cores
attention_gradient_tflops = 690
attention_half_length = 720
attention_half_head = 39
memory_gb_per_s = 2950         # specification 3350; 0.88 of it
kernel_us = 3
nvlink_gb_per_s = 370          # between the pair's 329 and 8 GPUs' 482 with NVLS, as on the H200
nvlink_us = 25
network_gb_per_s = 42          # specification 50
network_us = 40
overlap_loss = 0.7             # as on the H200
)"},
    {"h200", R"(# HGX H200 141 GB (700 W), 8 GPUs a node, 8 x NDR InfiniBand of 400 Gb/s.
gpus_per_node = 8
memory_gib = 139.8             # as reported by the driver
allowance_gib = 1.5
peak_tflops = 989.4            # specification, dense
matmul_tflops = 750            # measured: fits whole steps at the limit of power (docs/performance.md); single products make up to 809
matmul_fp32_tflops = 55
attention_forward_tflops = 900 # measured: 328 (head 64, length 1024), 532 (128, 2048), 620 (128, 8192)
attention_gradient_tflops = 690 # measured, deterministic: 227, 350 to 394
attention_half_length = 720
attention_half_head = 39
memory_gb_per_s = 4280         # measured, a copy; specification 4800
kernel_us = 3
nvlink_gb_per_s = 370          # measured: all-reduce of a pair 329 GB/s; 8 GPUs up to 482 with NVLS
nvlink_us = 25                 # measured: 1 MiB over a pair in 44 us
network_gb_per_s = 42
network_us = 40
overlap_loss = 0.73            # measured: of 36.7 ms over a pair 26.7 stay where all overlap (docs/performance.md)
)"},
};

} // namespace

std::span<const MachinePreset> presets() {
    return kPresets;
}

} // namespace trireme::plan
