// The cost model against published runs and ours, row by row (`make bench`).
#include <cstdio>

#include "support/published_runs.hpp"

namespace {

void show(const char* title, const std::vector<trireme::test::Comparison>& rows) {
    std::printf("%s\n  %-8s %-24s %6s %6s %10s %10s %7s %8s\n", title, "model", "layout", "micro", "chunks",
                "measured", "predicted", "error", "bubble");
    for (const trireme::test::Comparison& row : rows)
        std::printf("  %-8s %-24s %6lld %6d %10.1f %10.1f %+6.1f%% %7.1f%%\n", row.run.name.c_str(),
                    row.run.setup.grid.text().c_str(), static_cast<long long>(row.run.setup.micro_batch),
                    row.run.setup.chunks, row.run.tflops, row.tflops, 100 * row.error(),
                    100 * row.prediction.bubble);
}

} // namespace

int main() {
    show("Narayanan et al. 2021, table 1, A100 (TFLOP/s a GPU, recomputation counted)",
         trireme::test::compare_narayanan_2021());
    show("Megatron-LM on H100, 2024 (TFLOP/s a GPU, attention in full; micro-batch and chunks chosen)",
         trireme::test::compare_megatron_h100());
    show("ours on H200s (TFLOP/s a GPU, causal half of attention; docs/performance.md)",
         trireme::test::compare_own_h200());
    return 0;
}
