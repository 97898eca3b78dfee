// ranks: 1 2
// Models of transformers, imported: the logits are those of transformers to 1e-4 in fp32, on one rank and at
// TP 2; exported again, every tensor has the same bytes. The models are small ones in
// tests/oracle/data/transformers, or those in the folder that TRIREME_TRANSFORMERS names
// (tests/oracle/check_transformers.py), beside which the logits and the exported model are left for another
// look.
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "support/mpi_test.hpp"
#include "support/tolerance.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/hugging_face.hpp"
#include "trireme/checkpoint/tools.hpp"
#include "trireme/options/checkpoint_tool.hpp"
#include "trireme/storage/safetensors.hpp"
#include "trireme/train/engine.hpp"
#include "trireme/train/model_config.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::runtime;

constexpr long double kBound = 1e-4L; // what is promised in fp32 for logits of size 1 to 100

std::vector<double> values_of(const storage::SafetensorsReader& file, const std::string& name) {
    const storage::SafeTensor& tensor = file.tensors().at(name);
    EXPECT_EQ(tensor.type, storage::FloatType::f64);
    std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
    file.read(tensor, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

class OneRow : public pipeline::BatchSource {
  public:
    explicit OneRow(const std::vector<double>& tokens) : tokens_(tokens.begin(), tokens.end()) {}
    std::int64_t first_sample(std::int64_t) const override { return 0; }
    model::MicroBatch load(std::int64_t number) override {
        const auto length = static_cast<std::int64_t>(tokens_.size());
        return {number, 0, Tensor(std::span(tokens_), Shape{length, 1}), {}};
    }

  private:
    std::vector<std::int32_t> tokens_;
};

std::vector<std::string> cases(const fs::path& directory) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
        if (fs::exists(entry.path() / "expected.safetensors"))
            names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

// Every tensor of every safetensors file of a folder but `expected`.
std::map<std::string, std::vector<std::byte>> bytes_of(const fs::path& directory) {
    std::map<std::string, std::vector<std::byte>> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
        if (entry.path().extension() != ".safetensors" || entry.path().filename() == "expected.safetensors")
            continue;
        const storage::SafetensorsReader file(entry.path());
        for (const auto& [name, tensor] : file.tensors()) {
            std::vector<std::byte>& bytes = all[name];
            bytes.resize(static_cast<std::size_t>(tensor.end - tensor.begin));
            file.read(tensor, 0, bytes);
        }
    }
    return all;
}

class Transformers : public testing::Test {
  protected:
    Transformers() {
        const char* given = std::getenv("TRIREME_TRANSFORMERS");
        models_ = given != nullptr ? given : "tests/oracle/data/transformers";
        keep_ = given != nullptr;
        if (runtime().rank() == 0) {
            std::string name = (fs::temp_directory_path() / "trireme-transformers-XXXXXX").string();
            work_ = mkdtemp(name.data());
        }
        work_ = runtime().world().broadcast(work_.string(), 0);
    }
    ~Transformers() override {
        runtime().world().barrier();
        std::error_code ignored;
        if (runtime().rank() == 0)
            fs::remove_all(work_, ignored);
    }

    // Imports a model into `work_`/NAME, on rank 0.
    fs::path import(const std::string& name, std::optional<DType> type) const {
        comm::agree(runtime().world(), [&] {
            if (runtime().rank() != 0)
                return;
            checkpoint::HfModel model(models_ / name);
            catalogue::ModelConfig config = model.config();
            config.sequence = config.max_positions;
            const DType stored = type.value_or(model.type());
            const std::string options =
                options::to_config(train::model_values(config, stored), {}, options::Kept::model);
            model.import(work_ / name, stored, options);
        });
        return checkpoint::require_checkpoint(work_ / name);
    }

    catalogue::ModelConfig config_in(const fs::path& path, std::int64_t vocabulary) const {
        return train::model_config(options::model_in({checkpoint::read_state(path).options, path.string()}),
                                   vocabulary);
    }

    fs::path models_, work_;
    bool keep_ = false;
};

TEST_F(Transformers, LogitsAreTheirs) {
    ASSERT_FALSE(cases(models_).empty());
    for (const std::string& name : cases(models_)) {
        SCOPED_TRACE(name);
        const storage::SafetensorsReader expected(models_ / name / "expected.safetensors");
        const std::vector<double> tokens = values_of(expected, "tokens"),
                                  logits = values_of(expected, "logits");
        const fs::path path = import(name, DType::f32);
        const std::vector<double> positions = values_of(expected, "positions");
        const std::int64_t vocabulary = static_cast<std::int64_t>(logits.size() / positions.size());
        train::EngineSetup setup;
        setup.model = config_in(path, vocabulary);
        setup.grid = {runtime().ranks(), 1, 1};
        if (setup.model.groups % setup.grid.tensor != 0 || setup.model.heads % setup.grid.tensor != 0)
            continue; // one key/value group cannot be cut
        setup.purpose = train::Purpose::forward_only;
        const auto backend = backend::make_cpu_backend(1);
        train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
        checkpoint::load(path, {&engine.parameters(), nullptr, backend.get(), &engine.groups()});
        OneRow batches(tokens);
        std::vector<float> ours;
        for (const double position : positions)
            for (const double value : engine.infer(batches, static_cast<std::int64_t>(position)))
                ours.push_back(static_cast<float>(value));
        EXPECT_TRUE(test::within(ours, logits, kBound));
        if (keep_ && runtime().rank() == 0) {
            const storage::SafetensorsWriter::Declared declared{
                "logits", storage::FloatType::f32, {static_cast<std::int64_t>(positions.size()), vocabulary}};
            fs::create_directories(models_ / name / "trireme");
            storage::SafetensorsWriter file(models_ / name / "trireme/logits.safetensors", {&declared, 1});
            file.write(std::as_bytes(std::span(ours)));
            file.publish();
        }
    }
}

TEST_F(Transformers, ExportedAgainEveryTensorHasTheSameBytes) {
    if (runtime().ranks() > 1)
        return;
    for (const std::string& name : cases(models_)) {
        SCOPED_TRACE(name);
        const fs::path path = import(name, std::nullopt), out = work_ / (name + "-exported");
        const std::map<std::string, std::vector<std::byte>> before = bytes_of(models_ / name);
        checkpoint::HfExport how;
        how.max_shard_bytes = 12'000; // several files
        std::ostringstream said;
        checkpoint::export_hf(path, config_in(path, 0), out, how, said);
        const std::map<std::string, std::vector<std::byte>> after = bytes_of(out);
        EXPECT_EQ(before.size(), after.size());
        for (const auto& [tensor, bytes] : before) {
            ASSERT_TRUE(after.contains(tensor)) << tensor;
            EXPECT_TRUE(after.at(tensor) == bytes) << tensor;
        }
        EXPECT_TRUE(fs::exists(out / "model.safetensors.index.json"));
        EXPECT_NO_THROW(checkpoint::HfModel again(out));
        if (keep_) {
            fs::create_directories(models_ / name / "trireme");
            fs::copy(out, models_ / name / "trireme/exported");
        }
    }
}

} // namespace
} // namespace trireme
