// ranks: 1 2 4 8
// Checkpoints: a run that stops and resumes on the same layout gives the same bits as one that does not; on
// another layout the same losses to 1e-10. Whatever the layout, the tensors of a checkpoint have the
// catalogue's names and global shapes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"
#include "support/tolerance.hpp"
#include "trireme/base/file.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/checkpoint/background.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/select.hpp"
#include "trireme/checkpoint/tools.hpp"
#include "trireme/checkpoint/verify.hpp"
#include "trireme/storage/file.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::runtime;

// A directory that all ranks share, removed at the end.
class SharedDirectory {
  public:
    SharedDirectory() {
        std::string path;
        if (runtime().rank() == 0) {
            std::string pattern = (fs::temp_directory_path() / "trireme-checkpoint-XXXXXX").string();
            path = ::mkdtemp(pattern.data());
        }
        path_ = runtime().world().broadcast(path, 0);
    }
    ~SharedDirectory() {
        runtime().world().barrier();
        if (runtime().rank() == 0)
            fs::remove_all(path_);
    }
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

std::vector<topology::Grid> grids() {
    std::vector<topology::Grid> result;
    for (const int tensor : {1, 2, 4})
        for (const int pipeline : {1, 2, 4})
            for (const int data : {1, 2})
                if (tensor * pipeline * data == runtime().ranks())
                    result.push_back({tensor, data, pipeline});
    return result;
}

// An engine in a layout, and steps with it.
struct TinyRun {
    std::unique_ptr<backend::Backend> backend = backend::make_cpu_backend(1);
    train::Engine engine;
    test::SyntheticBatches batches;

    explicit TinyRun(const train::EngineSetup& setup)
        : engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend),
          batches(setup, engine.groups().at.data) {
        engine.initialise_weights();
    }
    std::vector<double> steps(std::int64_t begin, std::int64_t end) {
        std::vector<double> losses;
        for (std::int64_t step = begin; step < end; ++step) {
            batches.start_step(step * engine.setup().global_batch);
            losses.push_back(engine.train_step(batches, 0.02).loss);
        }
        return losses;
    }
    checkpoint::Model model() {
        return {&engine.parameters(), &engine.optimizer(), backend.get(), &engine.groups()};
    }
};

// Every second layout has its optimizer state sharded and its sequence cut.
train::EngineSetup setup_for(const topology::Grid& grid, DType type) {
    train::EngineSetup setup = test::tiny_setup();
    setup.grid = grid;
    setup.type = type;
    if (grid.data > 1)
        setup.optimizer.sharding = optimizer::Sharding::data_ranks;
    if (grid.tensor > 1 && grid.pipeline > 1)
        setup.sequence_parallel = model::SequenceParallel::yes;
    return setup;
}

fs::path save(TinyRun& run, const fs::path& directory, std::int64_t iteration) {
    checkpoint::State state;
    state.iteration = iteration;
    state.consumed_samples = iteration * run.engine.setup().global_batch;
    state.optimizer_steps = run.engine.optimizer().steps();
    state.options = "seed = 1234\n";
    return checkpoint::save(directory, state, run.model());
}

void load(TinyRun& run, const fs::path& directory) {
    const auto found = checkpoint::select(runtime().world(), directory, {}).checkpoint;
    ASSERT_TRUE(found);
    comm::agree(runtime().world(), [&] { checkpoint::require_model(*found, run.engine.parameters()); });
    checkpoint::load(*found, run.model());
    run.engine.optimizer().set_steps(checkpoint::read_state(*found).optimizer_steps);
}

TEST(Checkpoint, ResumeGivesTheSameBits) {
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
        for (const topology::Grid& grid : grids()) {
            const SharedDirectory directory;
            TinyRun whole(setup_for(grid, type));
            const std::vector<double> expected = whole.steps(0, 10);
            TinyRun first(setup_for(grid, type));
            first.steps(0, 5);
            save(first, directory.path(), 5);
            TinyRun second(setup_for(grid, type));
            ASSERT_NO_FATAL_FAILURE(load(second, directory.path()));
            EXPECT_EQ(second.steps(5, 10), std::vector<double>(expected.begin() + 5, expected.end()))
                << grid.text();
        }
}

// bf16 weights and the rest of their master weights are cut over ranks in other ways in each layout; the file
// has fp32.
TEST(Checkpoint, MasterWeightsGoFromLayoutToLayoutBitByBit) {
    const std::vector<topology::Grid> all = grids();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const topology::Grid &from = all[i], &to = all[(i + 1) % all.size()];
        const SharedDirectory directory, again;
        TinyRun first(setup_for(from, DType::bf16));
        first.steps(0, 3);
        const fs::path saved = save(first, directory.path(), 3);
        TinyRun second(setup_for(to, DType::bf16));
        ASSERT_NO_FATAL_FAILURE(load(second, directory.path()));
        const fs::path saved_again = save(second, again.path(), 3);
        if (runtime().rank() != 0)
            continue;
        std::ostringstream said;
        EXPECT_FALSE(checkpoint::differ(saved, saved_again, said))
            << from.text() << " -> " << to.text() << "\n"
            << said.str();
        EXPECT_EQ(storage::File::open_alone(saved / "checkpoint.h5")
                      .info("/master_weights/layers.0.mlp.up.weight")
                      .type,
                  DType::f32);
    }
}

// Whatever their type, all of a run's weights as bytes.
std::string weights_of(TinyRun& run) {
    std::string bytes;
    for (std::size_t bucket = 0; bucket < run.engine.parameters().buckets().size(); ++bucket) {
        const Tensor weights = run.engine.parameters().bucket_weights(bucket);
        bytes.append(static_cast<const char*>(weights.data()), static_cast<std::size_t>(weights.bytes()));
    }
    return bytes;
}

// Weights that are narrower than fp32 begin with the master weights of an fp32 run: an update that is smaller
// than half a step of bf16 is then not lost on all of them. So do those that come from an fp32 checkpoint
// without its moments.
TEST(Checkpoint, MasterWeightsBeginUnrounded) {
    for (const DType type : {DType::bf16, DType::f16})
        for (const topology::Grid& grid : grids()) {
            const SharedDirectory drawn, wide, back;
            TinyRun fresh(setup_for(grid, DType::f32)), narrow(setup_for(grid, type)),
                loaded(setup_for(grid, DType::f32));
            save(narrow, drawn.path(), 0);
            loaded.steps(0, 1); // other weights than those that are read
            ASSERT_NE(weights_of(loaded), weights_of(fresh));
            ASSERT_NO_FATAL_FAILURE(load(loaded, drawn.path()));
            EXPECT_EQ(weights_of(loaded), weights_of(fresh)) << name(type) << ", " << grid.text();

            fresh.steps(0, 2);
            checkpoint::load(save(fresh, wide.path(), 2), narrow.model(), checkpoint::Loads::weights);
            save(narrow, back.path(), 2);
            ASSERT_NO_FATAL_FAILURE(load(loaded, back.path()));
            EXPECT_EQ(weights_of(loaded), weights_of(fresh)) << name(type) << ", " << grid.text();
        }
}

TEST(Checkpoint, AnyLayoutReadsAnyLayout) {
    const std::vector<topology::Grid> all = grids();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const topology::Grid &from = all[i], &to = all[(i + 1) % all.size()];
        const SharedDirectory directory;
        TinyRun first(setup_for(from, DType::f64));
        first.steps(0, 5);
        save(first, directory.path(), 5);
        const std::vector<double> expected = first.steps(5, 10);
        TinyRun second(setup_for(to, DType::f64));
        ASSERT_NO_FATAL_FAILURE(load(second, directory.path()));
        EXPECT_TRUE(test::within(second.steps(5, 10), expected, 1e-10L * expected.front()))
            << from.text() << " -> " << to.text();
    }
}

// Splits of layers and shared keys and values change who holds what, not what is stored.
TEST(Checkpoint, AnySplitReadsAnySplit) {
    const int ranks = runtime().ranks();
    if (ranks < 2)
        GTEST_SKIP() << "runs on 2 ranks or more";
    train::EngineSetup even = setup_for({1, ranks, 1}, DType::f64), uneven = even;
    const int stages = std::min(ranks, 4);
    uneven.grid = {1, ranks / stages, stages};
    uneven.split.pieces =
        stages == 2 ? std::vector<std::int64_t>{1, 3} : std::vector<std::int64_t>{0, 1, 4, 1};
    even.model.layers = uneven.model.layers = stages == 2 ? 4 : 6;
    train::EngineSetup shared = even;
    even.model.groups = uneven.model.groups = shared.model.groups = 1;
    shared.grid = {std::min(ranks, 4), ranks / std::min(ranks, 4), 1, std::min(ranks, 4)};
    const std::vector<train::EngineSetup> setups{even, uneven, shared, uneven, even};
    for (std::size_t i = 0; i + 1 < setups.size(); ++i) {
        const SharedDirectory directory;
        TinyRun first(setups[i]);
        first.steps(0, 3);
        const fs::path path = save(first, directory.path(), 3);
        const std::vector<double> expected = first.steps(3, 6);
        if (runtime().rank() == 0) {
            EXPECT_TRUE(checkpoint::verify(path).good());
        }
        double bytes = static_cast<double>(checkpoint::bytes_to_save(first.model()));
        runtime().world().all_reduce({&bytes, 1}, comm::ReduceOp::sum);
        EXPECT_EQ(static_cast<std::int64_t>(bytes), 3 * 8 * catalogue::parameter_count(even.model))
            << "each element of weights and both moments once";
        TinyRun second(setups[i + 1]);
        ASSERT_NO_FATAL_FAILURE(load(second, directory.path()));
        EXPECT_TRUE(test::within(second.steps(3, 6), expected, 1e-10L * expected.front()))
            << setups[i].grid.text() << " -> " << setups[i + 1].grid.text();
    }
}

TEST(Checkpoint, HoldsTheCatalogue) {
    const topology::Grid grid = grids().back();
    const SharedDirectory directory;
    TinyRun run(setup_for(grid, DType::f32));
    run.steps(0, 1);
    const fs::path path = save(run, directory.path(), 1);
    EXPECT_EQ(path.filename(), "iter_0000001");
    storage::File view = storage::File::open_alone(path / "checkpoint.h5"); // follows the links
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(run.engine.setup().model, 1))
        for (const char* group : {"/parameters/", "/first_moment/", "/second_moment/"}) {
            EXPECT_EQ(view.info(group + parameter.name).shape, parameter.shape) << parameter.name;
            EXPECT_EQ(view.info(group + parameter.name).type, DType::f32);
        }
    EXPECT_EQ(view.names("/parameters").size(),
              catalogue::make_catalogue(run.engine.setup().model, 1).size());
}

// What h5py finds the tensors by is verified, too: HDF5's own sums find it.
TEST(Checkpoint, ADamagedLinkIsFound) {
    const SharedDirectory directory;
    TinyRun run(setup_for(grids().front(), DType::f32));
    const fs::path path = save(run, directory.path(), 1);
    if (runtime().rank() != 0)
        return;
    EXPECT_TRUE(checkpoint::verify(path).good());
    const std::string index = (path / "checkpoint.h5").string();
    std::string bytes = read_file(index, ErrorCategory::checkpoint, {});
    const std::size_t at = bytes.rfind("stage_000.h5");
    ASSERT_NE(at, std::string::npos);
    bytes[at + 6] = '7';
    std::ofstream(index, std::ios::binary) << bytes;
    const checkpoint::Verdict verdict = checkpoint::verify(path);
    std::string all;
    for (const checkpoint::Finding& finding : verdict.findings)
        all += finding.text() + "\n";
    EXPECT_NE(all.find("checkpoint.h5 /parameters/embedding.word.weight: cannot look at link"),
              std::string::npos)
        << all;
}

TEST(Checkpoint, AnotherModelIsRefused) {
    const SharedDirectory directory;
    const topology::Grid grid = grids().front();
    TinyRun run(setup_for(grid, DType::f32));
    save(run, directory.path(), 3);
    train::EngineSetup wider = setup_for(grid, DType::f32);
    wider.model.ffn = 64;
    TinyRun other(wider);
    try {
        load(other, directory.path());
        ADD_FAILURE() << "loaded";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::checkpoint);
        EXPECT_NE(error.message().find(
                      "layers.0.mlp.up.weight: [32, 16] in the checkpoint, [64, 16] by the options"),
                  std::string::npos)
            << error.message();
    }
}

TEST(Checkpoint, SavingAgainReplaces) {
    const SharedDirectory directory;
    const topology::Grid grid = grids().front();
    TinyRun run(setup_for(grid, DType::f64));
    save(run, directory.path(), 7);
    run.steps(0, 2);
    save(run, directory.path(), 7);
    const std::vector<double> expected = run.steps(2, 4);
    TinyRun second(setup_for(grid, DType::f64));
    ASSERT_NO_FATAL_FAILURE(load(second, directory.path()));
    EXPECT_EQ(second.steps(2, 4), expected);
    runtime().world().barrier();
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory.path()))
        ++entries;
    EXPECT_EQ(entries, 2u) << "the checkpoint and the marker, nothing else";
}

// One changed byte in the data of any tensor: loading on another layout says which tensor and which range,
// and so does verify(), which takes the whole checkpoint for good before.
TEST(Checkpoint, ADamagedByteIsNamed) {
    const std::vector<topology::Grid> all = grids();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const SharedDirectory directory;
        TinyRun run(setup_for(all[i], DType::f32));
        run.steps(0, 1);
        const fs::path path = save(run, directory.path(), 1);
        std::string damaged;
        if (runtime().rank() == 0) {
            const checkpoint::Verdict before = checkpoint::verify(path);
            EXPECT_TRUE(before.good()) << before.findings.front().text();
            EXPECT_TRUE(before.has_sums);
            EXPECT_EQ(before.iteration, 1);
            EXPECT_EQ(before.tensors, 3 * static_cast<std::int64_t>(
                                              catalogue::make_catalogue(run.engine.setup().model, 1).size()));
            const std::vector<const char*> names{"/second_moment/layers.3.mlp.down.weight",
                                                 "/parameters/final_norm.bias",
                                                 "/first_moment/embedding.word.weight"};
            damaged = names[i % names.size()];
            const storage::File view = storage::File::open_alone(path / "checkpoint.h5");
            for (const char* stage : {"stage_000.h5", "stage_001.h5", "stage_002.h5", "stage_003.h5"})
                if (fs::exists(path / stage)) {
                    const storage::File file = storage::File::open_alone(path / stage);
                    if (!file.has(damaged))
                        continue;
                    std::fstream bytes(path / stage, std::ios::in | std::ios::out | std::ios::binary);
                    bytes.seekg(file.place(damaged).offset + 5);
                    const char changed = static_cast<char>(bytes.get() ^ 0x10);
                    bytes.seekp(file.place(damaged).offset + 5);
                    bytes.put(changed);
                }
            const checkpoint::Verdict after = checkpoint::verify(path);
            EXPECT_EQ(after.findings.size(), 1u);
            EXPECT_NE(after.findings.front().text().find(damaged + " elements 0 to "), std::string::npos)
                << after.findings.front().text();
        }
        damaged = runtime().world().broadcast(damaged, 0);
        TinyRun other(setup_for(all[(i + 1) % all.size()], DType::f32));
        try {
            load(other, directory.path());
            ADD_FAILURE() << "loaded";
        } catch (const Error& error) {
            EXPECT_EQ(error.category(), ErrorCategory::checkpoint);
            EXPECT_NE(error.message().find(damaged + " elements 0 to "), std::string::npos)
                << error.message();
        }
    }
}

std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

// A save that is given up at the last moment, on one rank: no trace of it on any, and the next one works.
TEST(Checkpoint, AFailedSaveIsUndone) {
    const SharedDirectory directory;
    TinyRun run(setup_for(grids().back(), DType::f32));
    save(run, directory.path(), 1);
    run.steps(0, 1);
    checkpoint::State state;
    for (const std::int64_t iteration : {1, 2}) {
        state.iteration = iteration;
        checkpoint::SaveOptions options;
        options.before_publishing = [] { throw Error(ErrorCategory::output, "the test says no"); };
        const std::optional<Error> failure = comm::attempt(
            runtime().world(), [&] { checkpoint::save(directory.path(), state, run.model(), options); });
        ASSERT_TRUE(failure);
        EXPECT_STREQ(failure->what(), "the test says no");
        runtime().world().barrier();
        EXPECT_EQ(names_in(directory.path()),
                  (std::vector<std::string>{"iter_0000001", "latest_checkpointed_iteration.txt"}));
        runtime().world().barrier();
    }
    TinyRun fresh(setup_for(grids().back(), DType::f32)), second(setup_for(grids().back(), DType::f32));
    ASSERT_NO_FATAL_FAILURE(load(second, directory.path()));
    EXPECT_EQ(second.steps(0, 2), fresh.steps(0, 2)) << "the first checkpoint is what it was";
}

std::vector<std::int64_t> sums_in(const fs::path& checkpoint) {
    storage::File file = storage::File::open_alone(checkpoint / "checkpoint.h5");
    const topology::Box box = topology::Box::whole(file.info("/sums/ranges").shape);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(box.elements()));
    const storage::Part all{box, Tensor(std::span(sums), Shape(box.extents()))};
    file.read("/sums/ranges", {&all, 1});
    return sums;
}

// Training goes on while a checkpoint is written: it is of the step that it was taken at, to the bit, also
// where the buffer holds only a small part of the state.
TEST(Checkpoint, InTheBackgroundItIsOfOneStep) {
    struct Case {
        DType type;
        std::int64_t bytes; // of a parameter in the file: weights, master weights, both moments
        bool small;         // less memory than the state takes
    };
    for (const topology::Grid& grid : grids())
        for (const auto& [type, bytes_in_file, small] :
             {Case{DType::f32, 12, false}, Case{DType::f32, 12, true}, Case{DType::bf16, 14, true}}) {
            const SharedDirectory directory;
            TinyRun run(setup_for(grid, type));
            run.steps(0, 2);
            const std::int64_t bytes = checkpoint::bytes_to_save(run.model());
            double total = static_cast<double>(bytes);
            runtime().world().all_reduce({&total, 1}, comm::ReduceOp::sum);
            EXPECT_EQ(static_cast<std::int64_t>(total),
                      bytes_in_file * catalogue::parameter_count(run.engine.setup().model))
                << "each element of each kind once";
            checkpoint::BackgroundSave background(small ? bytes / 7 : bytes);
            checkpoint::State state;
            state.iteration = 2;
            const fs::path direct = save(run, directory.path() / "direct", 2);
            background.start(directory.path() / "background", state, run.model(), {});
            EXPECT_TRUE(background.in_flight());
            run.steps(2, 4);
            while (!background.is_written()) {
            }
            const fs::path path = background.finish();
            EXPECT_FALSE(background.in_flight());
            EXPECT_EQ(sums_in(path), sums_in(direct)) << grid.text();
            if (runtime().rank() == 0) {
                EXPECT_TRUE(checkpoint::verify(path).good());
            }
            state.iteration = 4;
            background.start(directory.path() / "background", state, run.model(), {});
            EXPECT_NE(sums_in(background.finish()), sums_in(direct));
            runtime().world().barrier();
        }
}

// A checkpoint in flight that is dropped, and one whose writing fails on one rank, leave nothing.
TEST(Checkpoint, InTheBackgroundAFailureIsUndone) {
    const SharedDirectory directory;
    TinyRun run(setup_for(grids().back(), DType::f32));
    checkpoint::State state;
    state.iteration = 1;
    {
        checkpoint::BackgroundSave background(1000);
        background.start(directory.path(), state, run.model(), {});
    }
    runtime().world().barrier();
    EXPECT_TRUE(names_in(directory.path()).empty());
    runtime().world().barrier();
    checkpoint::BackgroundSave background(1000);
    checkpoint::SaveOptions options;
    options.before_publishing = [] { throw Error(ErrorCategory::output, "the test says no"); };
    background.start(directory.path(), state, run.model(), options);
    EXPECT_TRUE(comm::attempt(runtime().world(), [&] { background.finish(); }));
    runtime().world().barrier();
    EXPECT_TRUE(names_in(directory.path()).empty());
    runtime().world().barrier();
    background.start(directory.path(), state, run.model(), {});
    background.finish();
    EXPECT_EQ(names_in(directory.path()).size(), 2u);
}

} // namespace
} // namespace trireme
