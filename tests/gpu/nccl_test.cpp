// ranks: 2
// NCCL communicators against known sums, and training on two GPUs against the CPU alone: fp32, dropout on, in
// every layout of two ranks and both schedules. Skipped unless each rank has a GPU of its own.
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <vector>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using comm::ReduceOp;
using test::runtime;
using topology::Grid;

// Null on all ranks unless all have one.
backend::Backend* gpu() {
    static const std::unique_ptr<backend::Backend> made = [] {
        std::unique_ptr<backend::Backend> backend;
        double lacking = 0;
        // As a run with a pipeline has it; NCCL reads it once.
        ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 0);
        try {
            backend = backend::make_backend(
                {.device = backend::Device::cuda, .local_rank = runtime().local_rank()});
            // One visible GPU would be shared, which NCCL refuses.
            const std::string text = backend->description();
            const std::vector<std::string> all =
                runtime().world().all_gather(text.substr(0, text.find(',', 7)));
            lacking = all.front() == all.back() ? 1 : 0;
        } catch (const Error&) {
            runtime().world().all_gather("none");
            lacking = 1;
        }
        runtime().world().all_reduce({&lacking, 1}, ReduceOp::max);
        return lacking > 0 ? nullptr : std::move(backend);
    }();
    return made.get();
}

class Nccl : public testing::Test {
  protected:
    void SetUp() override {
        if (gpu() == nullptr)
            GTEST_SKIP() << "needs gpu: two of them, one for each rank";
    }
};

// A vector in device memory, freed with its owner.
template <class T>
class Device {
  public:
    explicit Device(std::vector<T> values) : bytes_(static_cast<std::int64_t>(values.size() * sizeof(T))) {
        tensor_ =
            Tensor(gpu()->allocate(bytes_), Shape{static_cast<std::int64_t>(values.size())}, kDTypeOf<T>);
        gpu()->copy_to_device(Tensor(std::span(values), tensor_.shape()), tensor_);
    }
    ~Device() { gpu()->release(tensor_.data(), bytes_); }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const Tensor& tensor() const { return tensor_; }
    std::vector<T> values() const {
        std::vector<T> result(static_cast<std::size_t>(tensor_.elements()));
        gpu()->copy_to_host(tensor_, Tensor(std::span(result), tensor_.shape()));
        return result;
    }

  private:
    std::int64_t bytes_;
    Tensor tensor_;
};

template <class T>
std::vector<T> ramp(std::int64_t count, T first) {
    std::vector<T> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    return values;
}

// Integers make every sum exact.
TEST_F(Nccl, CollectivesGiveKnownSums) {
    const comm::ProcessGroups groups(runtime(), Grid{.data = 2}, *gpu());
    comm::Communicator& data = *groups.data;
    const int rank = data.rank();
    for (const std::int64_t count : {1, 7, 1024, 100000}) {
        const Device<double> sum(ramp<double>(count, rank == 0 ? 0 : 100));
        data.all_reduce(sum.tensor(), ReduceOp::sum);
        std::vector<double> want = ramp<double>(count, 0);
        for (double& value : want)
            value = 2 * value + 100;
        EXPECT_EQ(sum.values(), want);

        const Device<float> most(ramp<float>(count, static_cast<float>(rank)));
        data.all_reduce(most.tensor(), ReduceOp::max);
        EXPECT_EQ(most.values(), ramp<float>(count, 1));

        const Device<float> whole(ramp<float>(2 * count, 0)),
            part(std::vector<float>(static_cast<std::size_t>(count)));
        data.reduce_scatter(whole.tensor(), part.tensor());
        std::vector<float> parts = ramp<float>(count, static_cast<float>(rank * count));
        for (float& value : parts)
            value *= 2;
        EXPECT_EQ(part.values(), parts);

        const Device<std::int32_t> own(ramp<std::int32_t>(count, static_cast<std::int32_t>(rank * count))),
            all(std::vector<std::int32_t>(static_cast<std::size_t>(2 * count)));
        data.all_gather(own.tensor(), all.tensor());
        EXPECT_EQ(all.values(), ramp<std::int32_t>(2 * count, 0));

        data.broadcast(own.tensor(), 1);
        EXPECT_EQ(own.values(), ramp<std::int32_t>(count, static_cast<std::int32_t>(count)));
    }
}

// Small integers, so that every sum is exact; other ones on each rank.
std::vector<float> pattern(std::int64_t count, int rank) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 1009);
    return values;
}

std::vector<float> summed_pattern(std::int64_t count) {
    std::vector<float> sum = pattern(count, 0);
    const std::vector<float> other = pattern(count, 1);
    for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += other[i];
    return sum;
}

// Of more elements than are copied at once, and of sizes and places that no packs fit; a hundred in flight.
TEST_F(Nccl, RegisteredBuffersTravelAsCopies) {
    const comm::ProcessGroups groups(runtime(), Grid{.data = 2}, *gpu());
    comm::Communicator& data = *groups.data;
    const int rank = data.rank();
    constexpr std::int64_t kRoom = comm::ProcessGroups::kCopyBytes / 4;
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1003}, 2 * kRoom + 4}) {
        const Device<float> memory(pattern(2 * count + 1, rank));
        const Device<std::uint8_t> bytes(std::vector<std::uint8_t>(static_cast<std::size_t>(2 * count)));
        const std::vector<Tensor> buffers{memory.tensor(), bytes.tensor()};
        data.register_buffers(buffers);
        ASSERT_NE(data.transport().find("copies between the GPUs"), std::string::npos) << data.transport();
        const Tensor whole = memory.tensor().flat(1, 2 * count); // not at a multiple of 16 bytes
        const std::vector<float> want = [&] {
            std::vector<float> all = summed_pattern(2 * count + 1);
            all.erase(all.begin());
            return all;
        }();
        const auto values = [&](std::int64_t begin, std::int64_t size) {
            const std::vector<float> all = memory.values();
            return std::vector<float>(all.begin() + 1 + begin, all.begin() + 1 + begin + size);
        };
        const auto of_want = [&](std::int64_t begin, std::int64_t size) {
            return std::vector<float>(want.begin() + begin, want.begin() + begin + size);
        };
        data.reduce_scatter(whole, whole.flat(rank * count, count)); // in place
        EXPECT_EQ(values(rank * count, count), of_want(rank * count, count));
        data.all_gather(whole.flat(rank * count, count), whole);
        EXPECT_EQ(values(0, 2 * count), want);

        std::vector<float> twice = want;
        for (float& value : twice)
            value *= 2;
        comm::Request sum = data.start_all_reduce(whole, ReduceOp::sum);
        data.wait(sum);
        EXPECT_EQ(values(0, 2 * count), twice);

        const Device<std::uint8_t> own(
            std::vector<std::uint8_t>(static_cast<std::size_t>(count), static_cast<std::uint8_t>(rank + 1)));
        data.all_gather(own.tensor(), bytes.tensor()); // from elsewhere
        std::vector<std::uint8_t> ones_twos(static_cast<std::size_t>(2 * count), 1);
        std::fill(ones_twos.begin() + count, ones_twos.end(), std::uint8_t{2});
        EXPECT_EQ(bytes.values(), ones_twos);
        if (count == 1003) {
            std::vector<comm::Request> many;
            for (int i = 0; i < 100; ++i)
                many.push_back(i % 2 == 0 ? data.start_reduce_scatter(whole, whole.flat(rank * count, count))
                                          : data.start_all_gather(whole.flat(rank * count, count), whole));
            for (comm::Request& request : many)
                data.wait(request);
            // Doubled by each pair: both ranks hold the same. Beyond 2^24 powers of two are still exact.
            std::vector<float> often = twice;
            for (float& value : often)
                value = std::ldexp(value, 50);
            EXPECT_EQ(values(0, 2 * count), often);
        }
        data.release_buffers();
    }
    const Device<float> elsewhere(pattern(8, rank)); // after the release by NCCL
    data.all_reduce(elsewhere.tensor(), ReduceOp::sum);
    EXPECT_EQ(elsewhere.values(), summed_pattern(8));
}

// Receives are posted ahead, in both directions at once.
TEST_F(Nccl, MessagesCrossWithoutDeadlock) {
    const comm::ProcessGroups groups(runtime(), Grid{.pipeline = 2}, *gpu());
    comm::Communicator& pipeline = *groups.pipeline;
    const int rank = pipeline.rank(), other = 1 - rank,
              mine = rank == 0 ? 0 : 1; // channel 0 goes forward, 1 backward
    constexpr std::int64_t kCount = 1 << 20;
    const std::vector<float> zeros(kCount);
    const Device<float> first(zeros), second(zeros);
    const Device<float> out(ramp<float>(kCount, static_cast<float>(rank))), out2(ramp<float>(kCount, 7));
    comm::Request receives[] = {pipeline.receive(first.tensor(), other, 1 - mine),
                                pipeline.receive(second.tensor(), other, 1 - mine)};
    comm::Request sends[] = {pipeline.send(out.tensor(), other, mine),
                             pipeline.send(out2.tensor(), other, mine)};
    for (comm::Request& request : receives)
        pipeline.wait(request);
    for (comm::Request& request : sends)
        pipeline.wait(request);
    EXPECT_EQ(first.values(), ramp<float>(kCount, static_cast<float>(other)));
    EXPECT_EQ(second.values(), ramp<float>(kCount, 7));
}

TEST_F(Nccl, TwoGpusTrainTheModelOfOneCpu) {
    constexpr int kSteps = 10;
    train::EngineSetup setup = test::tiny_setup();
    setup.type = DType::f32;
    const auto cpu = backend::make_cpu_backend(1);
    const auto alone = comm::make_self_host_group();
    train::Engine reference(setup, comm::ProcessGroups::alone(*alone), *cpu);
    const std::vector<double> want = test::train_losses(reference, kSteps);
    for (const Grid& grid : {Grid{.tensor = 2}, Grid{.data = 2}, Grid{.pipeline = 2}})
        for (const auto schedule : {topology::ScheduleKind::one_f_one_b, topology::ScheduleKind::gpipe}) {
            setup.grid = grid;
            setup.schedule = schedule;
            std::vector<double> first;
            for (int run = 0; run < 2; ++run) {
                train::Engine engine(setup, comm::ProcessGroups(runtime(), grid, *gpu()), *gpu());
                const std::vector<double> losses = test::train_losses(engine, kSteps);
                for (std::size_t i = 0; i < losses.size(); ++i)
                    EXPECT_TRUE(std::abs(losses[i] - want[i]) <= 2e-5 * want[i])
                        << grid.text() << ", step " << i << ": " << losses[i] << ", expected " << want[i];
                if (run == 0)
                    first = losses;
                EXPECT_EQ(losses, first) << grid.text() << ": another run gave other bits";
            }
        }
}

} // namespace
} // namespace trireme
