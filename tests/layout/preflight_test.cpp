// ranks: 2 4
// What a preflight measures on real groups: every group of the layout, sums that are exact, and an element
// that is not (planted where results come back from the device).
#include <gtest/gtest.h>

#include "cluster/measure.hpp"
#include "support/mpi_test.hpp"

namespace trireme::cluster {
namespace {

using test::runtime;

// The CPU backend, with memory that goes bad.
class FlawedBackend final : public backend::Backend {
  public:
    explicit FlawedBackend(bool flawed) : flawed_(flawed) {}
    std::string description() const override { return sound_->description(); }
    backend::Operations& operations(backend::StreamRole role) override { return sound_->operations(role); }
    backend::Event record(backend::StreamRole role) override { return sound_->record(role); }
    void wait(backend::StreamRole role, backend::Event event) override { sound_->wait(role, event); }
    void synchronize(backend::StreamRole role) override { sound_->synchronize(role); }
    void copy_to_host(const Tensor& from, Tensor to) override {
        sound_->copy_to_host(from, to);
        if (flawed_)
            to.values<float>()[5] += 1;
    }
    void copy_to_device(const Tensor& from, Tensor to) override { sound_->copy_to_device(from, to); }
    void* allocate(std::int64_t bytes) override { return sound_->allocate(bytes); }
    void release(void* data, std::int64_t bytes) noexcept override { sound_->release(data, bytes); }
    std::int64_t allocated_bytes() const override { return sound_->allocated_bytes(); }
    std::int64_t allocations() const override { return sound_->allocations(); }

  private:
    std::unique_ptr<backend::Backend> sound_ = backend::make_cpu_backend(1);
    bool flawed_;
};

TEST(Preflight, MeasuresEachGroupOfTheLayout) {
    const int ranks = runtime().ranks(), flawed = ranks - 1;
    for (int tensor = 1; tensor <= ranks; tensor *= 2)
        for (int pipeline = 1; tensor * pipeline <= ranks; pipeline *= 2)
            for (const bool plant : {false, true}) {
                topology::Grid grid;
                grid.tensor = tensor;
                grid.pipeline = pipeline;
                grid.data = ranks / tensor / pipeline;
                SCOPED_TRACE(grid.text());
                FlawedBackend backend(plant && runtime().rank() == flawed);
                Facts facts;
                measure_groups(runtime(), grid, backend, facts);
                const std::int64_t wrong = plant && runtime().rank() == flawed ? 1 : 0;
                const auto expect = [&](const std::string& group, int size, const std::vector<int>& members,
                                        const std::vector<std::string>& operations) {
                    EXPECT_EQ(facts.has("members." + group), size > 1);
                    if (size == 1)
                        return;
                    std::string list;
                    for (const int member : members)
                        list += concat(list.empty() ? "" : ",", member);
                    EXPECT_EQ(facts.text("members." + group), list);
                    EXPECT_EQ(facts.text("place." + group), "inside");
                    for (const std::string& operation : operations) {
                        EXPECT_GT(facts.number(concat("group.", group, ".", operation, ".gbs")), 0);
                        EXPECT_EQ(facts.number(concat("group.", group, ".", operation, ".wrong")), wrong);
                    }
                };
                const int rank = runtime().rank();
                const std::vector<std::string> sums{"all-reduce", "reduce-scatter", "all-gather"};
                expect("tensor", grid.tensor, grid.tensor_group(rank), sums);
                expect("data", grid.data, grid.data_group(rank), sums);
                expect("pipeline", grid.pipeline, grid.pipeline_group(rank), {"send-receive"});
                EXPECT_EQ(backend.allocated_bytes(), 0) << "what was measured with is given back";
            }
}

TEST(Preflight, MeasuresMatrices) {
    FlawedBackend backend(false);
    Facts facts;
    measure_matrices(backend, facts);
    EXPECT_GT(facts.number("matrix_gflops"), 0.001);
    EXPECT_EQ(backend.allocated_bytes(), 0);
}

} // namespace
} // namespace trireme::cluster
