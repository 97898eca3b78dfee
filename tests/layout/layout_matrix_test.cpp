// ranks: 1 2 4 8
// Every layout trains the same model. Losses of 20 steps with dropout, in every TP x PP x DP of this number
// of ranks, with micro-batches of 1 and 2 and every way of recomputation, equal those of one rank alone to
// 1e-10 of their largest (fp64: only the order of sums differs). Leaving out any one collective or transfer
// must change the losses.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "support/mpi_test.hpp"
#include "support/omitting.hpp"
#include "support/one_rank.hpp"
#include "support/test_level.hpp"
#include "support/tiny_model.hpp"
#include "train/replicas.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/declared_rank.hpp"

namespace trireme {
namespace {

using model::Recompute;
using test::quick;
using test::runtime;
using topology::ScheduleKind;

constexpr int kSteps = 20;

std::vector<topology::Grid> grids() {
    std::vector<topology::Grid> result;
    for (const int tensor : {1, 2, 4})
        for (const int pipeline : {1, 2, 4})
            for (const int data : {1, 2, 4})
                if (tensor * pipeline * data == runtime().ranks())
                    result.push_back({tensor, data, pipeline});
    return result;
}

// What distinguishes the models of this test; layout, schedule and recomputation do not.
std::string describe_model(const train::EngineSetup& setup) {
    const catalogue::ModelConfig& model = setup.model;
    return concat(name(setup.type), " ", model.layers, " ", model.groups, " ",
                  static_cast<int>(model.positions), static_cast<int>(model.normalisation),
                  static_cast<int>(model.activation), static_cast<int>(model.output_layer),
                  static_cast<int>(model.biases), " ", setup.documents.masks_attention,
                  setup.documents.restarts_positions, setup.documents.masks_loss);
}

// One rank alone, computed once on rank 0 and given to all: losses, and the weights of fp64 models.
test::Numbers reference(const train::EngineSetup& model) {
    static std::map<std::string, test::Numbers> known;
    const std::string key = describe_model(model);
    if (const auto found = known.find(key); found != known.end())
        return found->second;
    test::Numbers numbers(kSteps);
    if (model.type == DType::f64)
        numbers.resize(kSteps + static_cast<std::size_t>(catalogue::parameter_count(model.model)));
    if (runtime().rank() == 0) {
        const auto backend = backend::make_cpu_backend(1);
        const auto alone = comm::make_self_host_group();
        train::EngineSetup setup = test::tiny_setup();
        setup.type = model.type;
        setup.model = model.model;
        setup.documents = model.documents;
        train::Engine engine(setup, comm::ProcessGroups::alone(*alone), *backend);
        numbers = test::train_losses(engine, kSteps);
        if (model.type == DType::f64)
            numbers = test::numbers_of(numbers, engine);
    }
    runtime().world().all_reduce(numbers, comm::ReduceOp::sum);
    return known[key] = numbers;
}

std::string describe(const train::EngineSetup& setup) {
    return concat(describe_model(setup), ", ", setup.grid.text(), ", ", topology::name(setup.schedule),
                  ", micro-batch ", setup.micro_batch, ", recompute ", static_cast<int>(setup.recompute.mode),
                  " of ", setup.recompute.layers, setup.recompute.modules.core_attention ? " core" : "",
                  setup.recompute.modules.norms ? " norms" : "", setup.recompute.modules.mlp ? " mlp" : "",
                  ", ", setup.chunks, " chunks");
}

// Planned and taken, in bytes: what the allocator of this rank has handed out is what the engine's plan says,
// and what rank 0 declares for every rank by itself. Collective.
testing::AssertionResult took_what_was_planned(const train::Engine& engine, const backend::Backend& backend) {
    const topology::Grid& grid = engine.groups().grid;
    std::vector<double> taken(static_cast<std::size_t>(runtime().ranks()));
    taken[static_cast<std::size_t>(runtime().rank())] = static_cast<double>(backend.allocated_bytes());
    runtime().world().all_reduce(taken, comm::ReduceOp::sum);
    if (engine.plan().bytes() != backend.allocated_bytes())
        return testing::AssertionFailure()
               << engine.plan().bytes() << " bytes planned, " << backend.allocated_bytes() << " taken";
    for (int rank = 0; runtime().rank() == 0 && rank < grid.ranks(); ++rank) {
        const plan::DeclaredRank declared(engine.setup(), grid.coordinates(rank), {},
                                          plan::schedule_of(engine.setup()));
        if (static_cast<double>(declared.plan.bytes()) != taken[static_cast<std::size_t>(rank)])
            return testing::AssertionFailure() << declared.plan.bytes() << " bytes foreseen for rank " << rank
                                               << ", " << taken[static_cast<std::size_t>(rank)] << " taken";
    }
    return testing::AssertionSuccess();
}

void expect_reference_losses(const train::EngineSetup& setup, double relative_bound) {
    const test::Numbers expected = reference(setup);
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    const std::int64_t allocations = backend->allocations();
    const std::vector<double> losses = test::train_losses(engine, kSteps);
    ASSERT_EQ(backend->allocations(), allocations) << describe(setup) << ": a step has allocated";
    ASSERT_TRUE(took_what_was_planned(engine, *backend)) << describe(setup);
    const test::Deviation deviation = test::compare(runtime().world(), losses, engine, expected);
    ASSERT_TRUE(deviation.within(relative_bound))
        << describe(setup) << ": losses differ from one rank's by " << deviation.losses << ", weights by "
        << deviation.parameters << " (" << deviation.where << ") of the largest of their kind";
    ASSERT_NO_THROW(train::check_replicas(engine, *backend, kSteps)) << describe(setup);
    // What the losses rest on: they move, so that equality means something.
    const auto [least, most] = std::ranges::minmax(losses);
    ASSERT_GT(most - least, 0.05) << describe(setup);
}

const std::vector<Recompute> kRecomputes{{Recompute::Mode::none, 0},
                                         {Recompute::Mode::selective, 0},
                                         {Recompute::Mode::uniform, 1},
                                         {Recompute::Mode::uniform, 3},
                                         {Recompute::Mode::block, 1}};

TEST(LayoutMatrix, LossesEqualOneRanks) {
    int number = 0;
    for (const topology::Grid& grid : grids())
        for (const std::int64_t micro_batch : {1, 2})
            for (const Recompute& recompute : kRecomputes)
                for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
                    train::EngineSetup setup = test::tiny_setup();
                    setup.grid = grid;
                    setup.micro_batch = micro_batch;
                    setup.recompute = recompute;
                    setup.schedule = schedule;
                    if (schedule == ScheduleKind::gpipe &&
                        (grid.pipeline == 1 || recompute.mode == Recompute::Mode::block))
                        continue;
                    // The quick level takes every third case; each layout still meets each recompute mode's
                    // neighbours.
                    if (quick() && runtime().ranks() > 1 && ++number % 3 != 0)
                        continue;
                    ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
                }
}

// Sequence parallelism and a sharded optimizer state change who holds what, not the model.
TEST(LayoutMatrix, SequenceParallelAndShardedState) {
    for (const topology::Grid& grid : grids())
        for (const bool sequence : {false, true})
            for (const bool sharded : {false, true}) {
                if (!(sequence && grid.tensor > 1) && !(sharded && grid.data > 1))
                    continue;
                train::EngineSetup setup = test::tiny_setup();
                setup.grid = grid;
                if (sequence)
                    setup.sequence_parallel = model::SequenceParallel::yes;
                if (sharded)
                    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
                setup.recompute =
                    kRecomputes[static_cast<std::size_t>(grid.pipeline + 2 * sequence) % kRecomputes.size()];
                setup.micro_batch = sharded ? 2 : 1;
                ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
            }
}

// Weight gradients that run later than the input gradients of their micro-batch.
TEST(LayoutMatrix, ZeroBubble) {
    for (const topology::Grid& grid : grids())
        for (const std::int64_t micro_batch : {1, 2}) {
            train::EngineSetup setup = test::tiny_setup();
            setup.grid = grid;
            setup.micro_batch = micro_batch;
            setup.schedule = ScheduleKind::zb_h1;
            if (micro_batch == 2)
                setup.sequence_parallel = model::SequenceParallel::yes;
            ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
        }
}

TEST(LayoutMatrix, Fp32LossesEqualOneRanks) {
    for (const topology::Grid& grid : grids()) {
        train::EngineSetup setup = test::tiny_setup();
        setup.grid = grid;
        setup.type = DType::f32;
        ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 2e-5));
    }
}

// Layers that do not divide evenly over the stages.
TEST(LayoutMatrix, UnevenStages) {
    if (runtime().ranks() > 4)
        GTEST_SKIP() << "one number of layers for up to 4 stages is enough";
    train::EngineSetup setup = test::tiny_setup();
    setup.model.layers = 5;
    setup.grid.pipeline = runtime().ranks();
    expect_reference_losses(setup, 1e-10);
}

// Stages of unlike size, ends without a layer, in every schedule, with and without chunks.
TEST(LayoutMatrix, SplitsOfLayers) {
    using topology::PipelineSplit;
    using topology::TakesPlace;
    const int stages = runtime().ranks();
    if (stages != 2 && stages != 4)
        GTEST_SKIP() << "pipelines of 2 and 4 stages";
    struct Case {
        std::int64_t layers;
        int chunks;
        PipelineSplit split;
    };
    std::vector<Case> cases;
    if (stages == 2)
        cases = {{5, 1, {.first_stage = 1}},
                 {5, 1, {.last_stage = 1}},
                 {5, 1, {.embedding = TakesPlace::yes}},
                 {4, 1, {.embedding = TakesPlace::yes, .head = TakesPlace::yes}},
                 {4, 1, {.pieces = {0, 4}}},
                 {4, 1, {.pieces = {4, 0}}},
                 {6, 2, {.first_stage = 2}},
                 {6, 2, {.embedding = TakesPlace::yes, .head = TakesPlace::yes}},
                 {4, 2, {.pieces = {0, 3, 1, 0}}}};
    else
        cases = {{5, 1, {.first_stage = 1, .last_stage = 2}},
                 {7, 1, {.head = TakesPlace::yes}},
                 {2, 1, {.embedding = TakesPlace::yes, .head = TakesPlace::yes}},
                 {5, 1, {.pieces = {0, 1, 4, 0}}},
                 {6, 2, {.embedding = TakesPlace::yes, .head = TakesPlace::yes}},
                 {9, 2, {.pieces = {0, 2, 1, 1, 1, 1, 3, 0}}}};
    int number = 0;
    for (const Case& one : cases)
        for (const ScheduleKind kind :
             {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h1}) {
            if (one.chunks > 1 && kind != ScheduleKind::one_f_one_b)
                continue;
            train::EngineSetup setup = test::tiny_setup();
            setup.model.layers = one.layers;
            setup.grid.pipeline = stages;
            setup.chunks = one.chunks;
            setup.split = one.split;
            setup.schedule = one.chunks > 1 ? ScheduleKind::interleaved : kind;
            if (kind != ScheduleKind::zb_h1)
                setup.recompute = kRecomputes[static_cast<std::size_t>(++number) % kRecomputes.size()];
            ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
        }
}

// Several tensor ranks hold the same keys and values: with biases and without, sequence cut or not, state
// sharded or not, each way of bucketing.
TEST(LayoutMatrix, FewerGroupsThanTensorRanks) {
    for (topology::Grid grid : grids())
        for (const std::int64_t groups : {1, 2}) {
            if (grid.tensor <= groups)
                continue;
            grid.key_value_holders = grid.tensor / static_cast<int>(groups);
            for (const bool other : {false, true}) {
                train::EngineSetup setup = test::tiny_setup();
                setup.model.groups = groups;
                setup.grid = grid;
                if (other) {
                    setup.model.positions = catalogue::Positions::rotary;
                    setup.model.biases = catalogue::Biases::none;
                    setup.sequence_parallel = model::SequenceParallel::yes;
                    setup.bucket_elements = 1000;
                    setup.optimizer.overlap = optimizer::Overlap::reduction;
                }
                if (grid.data > 1)
                    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
                if (grid.pipeline > 1)
                    setup.schedule = other ? ScheduleKind::zb_h1 : ScheduleKind::gpipe;
                ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
            }
        }
}

// --check-replicas sees a key that differs on one of its holders.
TEST(LayoutMatrix, SharedKeysAreCompared) {
    if (runtime().ranks() == 1)
        GTEST_SKIP() << "runs on 2 ranks or more";
    train::EngineSetup setup = test::tiny_setup();
    setup.model.groups = 1;
    setup.grid = {.tensor = 2, .data = runtime().ranks() / 2, .key_value_holders = 2};
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    test::train_losses(engine, 1);
    ASSERT_NO_THROW(train::check_replicas(engine, *backend, 1));
    for (const model::HeldParameter& held : engine.parameters().held())
        if (held.parameter.name == "layers.1.attention.key.weight" && runtime().rank() == 1)
            backend->compute().fill(engine.parameters().weight(held), 1);
    try {
        train::check_replicas(engine, *backend, 1);
        ADD_FAILURE() << "not seen";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("layers.1.attention.key.weight"), std::string::npos)
            << error.what();
    }
}

// Every set of recomputed modules, with GELU and SwiGLU, both norms, and the sequence cut.
TEST(LayoutMatrix, RecomputedModules) {
    for (const topology::Grid& grid : grids())
        for (const bool llama : {false, true})
            for (int modules = 1; modules < 8; ++modules) {
                if (quick() && modules != 2 && modules != 4 && modules != 7)
                    continue;
                train::EngineSetup setup = test::tiny_setup();
                setup.grid = grid;
                setup.recompute.mode = Recompute::Mode::selective;
                setup.recompute.modules = {(modules & 1) != 0, (modules & 2) != 0, (modules & 4) != 0};
                if (llama) {
                    setup.model.activation = catalogue::Activation::swiglu;
                    setup.model.normalisation = catalogue::Normalisation::rms_norm;
                    setup.sequence_parallel = model::SequenceParallel::yes;
                }
                ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
            }
}

// The shapes of today's models: each switch away from GPT-2 alone, and all of them as in Llama.
TEST(LayoutMatrix, ModelShapes) {
    std::vector<catalogue::ModelConfig> models;
    const catalogue::ModelConfig gpt2 = test::tiny_setup().model;
    const auto add = [&](auto change) {
        models.push_back(gpt2);
        change(models.back());
    };
    add([](auto& m) { m.positions = catalogue::Positions::rotary; });
    add([](auto& m) { m.normalisation = catalogue::Normalisation::rms_norm; });
    add([](auto& m) { m.activation = catalogue::Activation::swiglu; });
    add([](auto& m) { m.output_layer = catalogue::OutputLayer::own; });
    add([](auto& m) { m.biases = catalogue::Biases::query_key_value; });
    add([](auto& m) {
        m.positions = catalogue::Positions::rotary;
        m.normalisation = catalogue::Normalisation::rms_norm;
        m.activation = catalogue::Activation::swiglu;
        m.output_layer = catalogue::OutputLayer::own;
        m.biases = catalogue::Biases::none;
        m.groups = 2;
    });
    for (const topology::Grid& grid : grids())
        for (const catalogue::ModelConfig& model : models) {
            if (model.groups % grid.tensor != 0)
                continue;
            train::EngineSetup setup = test::tiny_setup();
            setup.model = model;
            setup.grid = grid;
            setup.sequence_parallel =
                grid.data > 1 ? model::SequenceParallel::no : model::SequenceParallel::yes;
            if (grid.data > 1)
                setup.optimizer.sharding = optimizer::Sharding::data_ranks;
            if (grid.pipeline > 1)
                setup.recompute = kRecomputes[static_cast<std::size_t>(grid.tensor) % kRecomputes.size()];
            ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
        }
}

// Documents within samples: each treatment alone and all together. Samples have different numbers of ends, so
// a mean of the means of micro-batches or ranks would depend on the layout. Stages in the middle, chunks and
// every way of recomputation need documents and positions too.
TEST(LayoutMatrix, Documents) {
    constexpr std::int32_t kEnd = 3;
    int number = 0;
    for (const topology::Grid& grid : grids())
        for (const catalogue::Positions positions :
             {catalogue::Positions::learned, catalogue::Positions::rotary})
            for (const model::DocumentSetup& documents : {model::DocumentSetup{true, true, true, kEnd},
                                                          model::DocumentSetup{true, false, false, kEnd},
                                                          model::DocumentSetup{false, true, false, kEnd},
                                                          model::DocumentSetup{false, false, true, kEnd}}) {
                train::EngineSetup setup = test::tiny_setup();
                setup.grid = grid;
                setup.model.positions = positions;
                setup.documents = documents;
                ++number;
                // The quick level takes all three together, and a third of the rest.
                if (quick() && runtime().ranks() > 1 && number % 4 != 1 && number % 3 != 1)
                    continue;
                setup.micro_batch = 1 + number % 2;
                setup.sequence_parallel = number % 3 == 0 || grid.data == 1 ? model::SequenceParallel::yes
                                                                            : model::SequenceParallel::no;
                setup.recompute = kRecomputes[static_cast<std::size_t>(number) % kRecomputes.size()];
                if (grid.data > 1 && number % 4 < 2)
                    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
                if (grid.pipeline == 2 && number % 3 == 1) {
                    setup.schedule = ScheduleKind::interleaved;
                    setup.chunks = 2;
                } else if (grid.pipeline > 1 && number % 3 == 2) {
                    setup.schedule = ScheduleKind::zb_h1;
                    setup.recompute = {};
                } else if (grid.pipeline > 1 && number % 2 == 0) {
                    setup.schedule = ScheduleKind::gpipe;
                }
                ASSERT_NO_FATAL_FAILURE(expect_reference_losses(setup, 1e-10));
            }
}

// bf16 has operands widened into scratch, whose size depends on shapes; evaluation needs no more than a step.
TEST(LayoutMatrix, MemoryOfBf16IsPlanned) {
    for (const topology::Grid& grid : grids())
        for (const int threads : {1, 3}) {
            train::EngineSetup setup = test::tiny_setup();
            setup.grid = grid;
            setup.type = DType::bf16;
            setup.recompute = kRecomputes[static_cast<std::size_t>(grid.data)];
            if (threads > 1)
                setup.documents = {true, true, true, 3};
            const auto backend = backend::make_cpu_backend(threads);
            train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
            const std::int64_t allocations = backend->allocations();
            test::train_losses(engine, 1);
            test::SyntheticBatches batches(setup, engine.groups().at.data);
            engine.evaluate(batches, 2);
            EXPECT_EQ(backend->allocations(), allocations) << describe(setup);
            EXPECT_EQ(backend->allocated_bytes(), engine.plan().bytes()) << describe(setup);
        }
}

// What the comparison is worth: one byte more is seen.
TEST(LayoutMatrix, OnePlantedByteIsSeen) {
    train::EngineSetup setup = test::tiny_setup();
    setup.grid = grids().front();
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    EXPECT_TRUE(took_what_was_planned(engine, *backend));
    void* const planted = backend->allocate(1);
    EXPECT_FALSE(took_what_was_planned(engine, *backend));
    backend->release(planted, 1);
}

// The parameters of all ranks of one data replica are the model's, with what is replicated and padded counted
// as the catalogue says, and no rank holds more than its share.
TEST(LayoutMatrix, EachRankHoldsItsShare) {
    for (const topology::Grid& grid : grids()) {
        train::EngineSetup setup = test::tiny_setup();
        setup.grid = grid;
        const auto backend = backend::make_cpu_backend(1);
        train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
        const topology::Coordinates at = engine.groups().at;
        const topology::Interval layers =
            engine.placement().layers[static_cast<std::size_t>(at.pipeline)].front();
        double expected = 0;
        for (const catalogue::Parameter& parameter : catalogue::make_catalogue(setup.model, grid.tensor)) {
            const bool first = at.pipeline == 0, last = at.pipeline == grid.pipeline - 1;
            const bool here = parameter.owner == catalogue::Owner::layer
                                  ? layers.begin <= parameter.layer && parameter.layer < layers.end
                              : parameter.owner == catalogue::Owner::embedding ? first
                              : parameter.owner == catalogue::Owner::head      ? last
                                                                               : first || last;
            if (!here)
                continue;
            double elements = static_cast<double>(parameter.elements());
            if (parameter.name == "embedding.word.weight") // 61 rows, padded to a multiple of 8 x TP
                elements =
                    static_cast<double>((61 + 8 * grid.tensor - 1) / (8 * grid.tensor) * (8 * grid.tensor)) *
                    16;
            expected += parameter.split_axis >= 0 ? elements / grid.tensor : elements;
        }
        EXPECT_EQ(static_cast<double>(engine.parameters().local_elements()), expected) << grid.text();
    }
}

struct Omission {
    std::vector<double> losses;
    int calls = 0; // that the group saw in one step
};

Omission losses_without(std::unique_ptr<comm::Communicator> comm::ProcessGroups::*group, int omitted) {
    train::EngineSetup setup = test::tiny_setup();
    const int ranks = runtime().ranks();
    setup.model.layers = 2;
    setup.global_batch = setup.micro_batch * 2 * (ranks == 8 ? 2 : 1);
    setup.grid = {2, ranks == 8 ? 2 : 1, 2};
    if (group == &comm::ProcessGroups::data && ranks == 4)
        setup.grid = {1, 2, 2};
    const auto backend = backend::make_cpu_backend(1);
    comm::ProcessGroups groups(runtime(), setup.grid, *backend);
    auto replacement = std::make_unique<test::Omitting>(std::move(groups.*group), omitted);
    test::Omitting& watched = *replacement;
    groups.*group = std::move(replacement);
    train::Engine engine(setup, std::move(groups), *backend);
    engine.initialise_weights();
    test::SyntheticBatches batches(setup, engine.groups().at.data);
    Omission result;
    for (int step = 0; step < 4; ++step) {
        batches.start_step(step * setup.global_batch);
        watched.start_step();
        result.losses.push_back(engine.train_step(batches, 0.02).loss);
    }
    double most = watched.calls();
    runtime().world().all_reduce({&most, 1}, comm::ReduceOp::max);
    result.calls = static_cast<int>(most);
    return result;
}

bool differ(const std::vector<double>& a, const std::vector<double>& b) {
    double difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference = std::max(difference, std::fabs(a[i] - b[i]));
    return difference > 1e-7; // NaN would be seen by the layout tests
}

TEST(Omissions, AnyCollectiveLeftOutChangesTheLosses) {
    if (runtime().ranks() != 4)
        GTEST_SKIP() << "runs on 4 ranks";
    constexpr int kNone = -1;
    using comm::ProcessGroups;
    for (const auto group :
         {&ProcessGroups::tensor, &ProcessGroups::data, &ProcessGroups::embedding, &ProcessGroups::model}) {
        const Omission whole = losses_without(group, kNone);
        ASSERT_GT(whole.calls, 0);
        for (int omitted = 0; omitted < whole.calls; ++omitted)
            EXPECT_TRUE(differ(losses_without(group, omitted).losses, whole.losses))
                << "collective " << omitted;
    }
    const Omission whole = losses_without(&ProcessGroups::pipeline, kNone);
    for (const int channel : {0, 1}) // forward and backward transfers
        EXPECT_TRUE(differ(losses_without(&ProcessGroups::pipeline, channel).losses, whole.losses))
            << "channel " << channel;
}

} // namespace
} // namespace trireme
