// ranks: 1 2 4
// A NaN that is planted on one rank, in one layer and micro-batch, is found there and nowhere before, in
// every kind of layout; a step without one is found clean, and training goes on as if nothing had been looked
// at.
#include <gtest/gtest.h>
#include <limits>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"
#include "train/nan_examination.hpp"

namespace trireme {
namespace {

using test::runtime;
using topology::ScheduleKind;
using train::Flaw;

class Plant : public model::Probe {
  public:
    Plant(const Flaw& flaw) : flaw_(flaw) {}
    void output(std::int64_t layer, std::int64_t micro_batch, const Tensor& output) override {
        put(Flaw::Phase::forward, layer, micro_batch, output);
    }
    void gradient(std::int64_t layer, std::int64_t micro_batch, const Tensor& gradient) override {
        put(Flaw::Phase::backward, layer, micro_batch, gradient);
    }
    int planted = 0;

  private:
    void put(Flaw::Phase phase, std::int64_t layer, std::int64_t micro_batch, const Tensor& tensor) {
        if (!(flaw_ == Flaw{phase, micro_batch, layer, ""}))
            return;
        tensor.values<double>()[3] = std::numeric_limits<double>::quiet_NaN();
        ++planted;
    }
    Flaw flaw_;
};

TEST(NanExamination, FindsWhatIsPlanted) {
    const int ranks = runtime().ranks();
    struct Case {
        int tensor, pipeline;
        ScheduleKind schedule;
    };
    for (const auto& [tensor, pipeline, schedule] :
         {Case{ranks, 1, ScheduleKind::one_f_one_b}, Case{1, ranks, ScheduleKind::one_f_one_b},
          Case{1, ranks, ScheduleKind::zb_h1}, Case{1, 1, ScheduleKind::one_f_one_b}}) {
        if (ranks == 1 && schedule != ScheduleKind::one_f_one_b)
            continue;
        train::EngineSetup setup = test::tiny_setup();
        setup.grid.tensor = tensor;
        setup.grid.pipeline = pipeline;
        setup.grid.data = ranks / tensor / pipeline;
        setup.schedule = schedule;
        SCOPED_TRACE(concat(setup.grid.text(), ", ", topology::name(schedule)));
        const auto backend = backend::make_cpu_backend(1);
        train::Engine undisturbed(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
        const std::vector<double> expected = test::train_losses(undisturbed, 3);

        train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
        engine.initialise_weights();
        test::SyntheticBatches batches(setup, engine.groups().at.data);
        EXPECT_EQ(train::examine(engine, *backend, batches,
                                 {.rates = {}, .global_batch = engine.setup().global_batch}),
                  train::Flaws(static_cast<std::size_t>(ranks)));
        for (const Flaw& flaw :
             {Flaw{Flaw::Phase::forward, 1, 2, ""}, Flaw{Flaw::Phase::forward, 0, -1, ""},
              Flaw{Flaw::Phase::backward, 1, 3, ""}, Flaw{Flaw::Phase::backward, 0, 0, ""}}) {
            SCOPED_TRACE(concat("phase ", static_cast<int>(flaw.phase), ", layer ", flaw.layer));
            Plant plant(flaw);
            const train::Flaws found =
                train::examine(engine, *backend, batches,
                               {.rates = {}, .global_batch = engine.setup().global_batch}, &plant);
            // Planted on every rank that has the layer, it is found on these at that very place.
            const Flaw* first = nullptr;
            for (const auto& each : found)
                if (each && (first == nullptr || *each == flaw))
                    first = &*each;
            ASSERT_NE(first, nullptr);
            EXPECT_EQ(*first, flaw);
            const std::optional<Flaw>& own = found[static_cast<std::size_t>(runtime().rank())];
            EXPECT_EQ(plant.planted, own && *own == flaw ? 1 : 0);
        }
        EXPECT_EQ(train::ranks_with_bad_loss(engine), std::vector<int>{})
            << "the last plant came behind the loss";
    }
}

} // namespace
} // namespace trireme
