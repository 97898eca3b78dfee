// Reads a file of golden values (tests/oracle/make_*goldens.py): boxes of tensors by the catalogue's names.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/tolerance.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/storage/file.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::test {

class Goldens {
  public:
    explicit Goldens(const std::string& path) : file_(storage::File::open_alone(path)) {}

    std::vector<double> values(const std::string& name) {
        const std::vector<std::int64_t> shape = file_.info(name).shape;
        std::vector<double> result(static_cast<std::size_t>(topology::Box::whole(shape).elements()));
        read(name, topology::Box::whole(shape), result);
        return result;
    }
    std::vector<double> part(const std::string& name, const topology::Box& box) {
        std::vector<double> result(static_cast<std::size_t>(box.elements()));
        if (!box.empty())
            read(name, box, result);
        return result;
    }
    std::vector<std::int32_t> tokens() {
        const topology::Box box = topology::Box::whole(file_.info("/tokens").shape);
        std::vector<std::int32_t> result(static_cast<std::size_t>(box.elements()));
        const storage::Part all{box, Tensor(std::span(result), Shape(box.extents()))};
        file_.read("/tokens", {&all, 1});
        return result;
    }
    // The largest value of each kind of parameter over all layers.
    std::map<std::string, long double> largest_of_kinds(const std::string& group,
                                                        const catalogue::ModelConfig& config) {
        std::map<std::string, long double> most;
        for (const catalogue::Parameter& parameter : catalogue::make_catalogue(config, 1))
            most[parameter.kind] = std::max(most[parameter.kind], largest(values(group + parameter.name)));
        return most;
    }

  private:
    void read(const std::string& name, const topology::Box& box, std::vector<double>& into) {
        const storage::Part part{box, Tensor(std::span(into), Shape(box.extents()))};
        file_.read(name, {&part, 1});
    }
    storage::File file_;
};

// The parameters that a rank of the engine holds, from /parameters.
inline void set_parameters(train::Engine& engine, Goldens& goldens) {
    engine.initialise_weights(); // padding becomes zero
    for (const model::HeldParameter& held : engine.parameters().held()) {
        const std::vector<double> values = goldens.part("/parameters/" + held.parameter.name, held.shard.box);
        std::ranges::copy(values, engine.parameters().weight(held).values<double>().begin());
    }
}

// Every main gradient held here against /gradients, to `relative` of the largest of its kind. A key bias adds
// the same to all scores of a query, so its gradient is exactly zero where keys are not rotated: what PyTorch
// and we find is rounding. It is held against the query bias.
// `correction`: what the update multiplies main gradients by (where losses are masked).
inline void expect_gradients(train::Engine& engine, Goldens& goldens, long double relative,
                             double correction = 1) {
    const std::map<std::string, long double> largest =
        goldens.largest_of_kinds("/gradients/", engine.setup().model);
    for (const model::HeldParameter& held : engine.parameters().held()) {
        const std::vector<double> expected =
            goldens.part("/gradients/" + held.parameter.name, held.shard.box);
        const std::string kind = held.parameter.kind == "layers.attention.key.bias"
                                     ? "layers.attention.query.bias"
                                     : held.parameter.kind;
        const std::span<double> main = engine.parameters().gradient(held).values<double>();
        std::vector<double> corrected(main.begin(), main.end());
        for (double& value : corrected)
            value *= correction;
        const std::span<double> local(corrected);
        EXPECT_TRUE(within(local.first(expected.size()), expected, relative * largest.at(kind)))
            << held.parameter.name << " at " << engine.setup().grid.text();
    }
}

} // namespace trireme::test
