// Few hardware queues are refused exactly where they would hang (one_queue_test): interleaved pipelines of
// uneven groups.
#include <cstdlib>
#include <gtest/gtest.h>

#include "train/gpu_queues.hpp"
#include "trireme/base/error.hpp"

namespace trireme::train {
namespace {

options::Resolved pipeline(std::int64_t chunks, std::int64_t micro_batches) {
    options::Resolved options;
    options.machine.device = options::Device::cuda;
    options.layout.pipeline_parallel = 4;
    options.layout.data_parallel = 2;
    options.layout.model_chunks = chunks;
    options.batch.micro_batch_size = 3;
    options.batch.schedule = topology::BatchSchedule::constant(micro_batches * 2 * 3);
    return options;
}

bool refused(const options::Resolved& options, const char* queues) {
    if (queues == nullptr)
        ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    else
        ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", queues, 1);
    try {
        require_queues(options);
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::usage);
        EXPECT_NE(error.message().find("unset CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos);
        return true;
    }
    return false;
}

TEST(GpuQueues, FewAreRefusedWhereTheyWouldHang) {
    EXPECT_TRUE(refused(pipeline(2, 6), "1"));
    EXPECT_TRUE(refused(pipeline(2, 6), "8"));
    EXPECT_FALSE(refused(pipeline(2, 6), "32"));
    EXPECT_FALSE(refused(pipeline(2, 6), nullptr));
    EXPECT_FALSE(refused(pipeline(2, 8), "1")) << "whole groups";
    EXPECT_FALSE(refused(pipeline(1, 6), "1")) << "not interleaved";
    options::Resolved on_cpu = pipeline(2, 6);
    on_cpu.machine.device = options::Device::cpu;
    EXPECT_FALSE(refused(on_cpu, "1"));
    ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

} // namespace
} // namespace trireme::train
