// Measures with the backend and the communicators of a run.
#include "measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <set>
#include <vector>

#include "trireme/comm/phase.hpp"

namespace trireme::cluster {
namespace {

using backend::StreamRole;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

bool on_gpu(const backend::Backend& backend) {
    return backend.device() == backend::Device::cuda;
}

// A tensor of memory of its own.
class Buffer {
  public:
    Buffer(backend::Backend& backend, const Shape& shape, DType type)
        : backend_(backend), bytes_(shape.elements() * size_bytes(type)),
          tensor_(backend.allocate(bytes_), shape, type) {}
    ~Buffer() { backend_.release(tensor_.data(), bytes_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    const Tensor& tensor() const { return tensor_; }

  private:
    backend::Backend& backend_;
    std::int64_t bytes_;
    Tensor tensor_;
};

// Whole numbers so small that every sum of them is exact in fp32: rank r's element i is (r + 1)(i mod 7 + 1).
float value_of(int rank, std::int64_t i) {
    return static_cast<float>((rank + 1) * (i % 7 + 1));
}

class GroupBench {
  public:
    GroupBench(comm::Communicator& group, const std::string& name, StreamRole role, backend::Backend& backend,
               Facts& facts)
        : group_(group), name_(name), role_(role), backend_(backend), facts_(facts),
          part_(on_gpu(backend) ? 1 << 22 : 1 << 16), whole_elements_(part_ * group.size()),
          whole_(backend, Shape{whole_elements_}, DType::f32), small_(backend, Shape{part_}, DType::f32) {}

    void collectives(comm::HostGroup& world) {
        const int n = group_.size();
        const double bytes = static_cast<double>(whole_elements_) * sizeof(float);
        const double sum = n * (n + 1) / 2.0;
        const auto times = [&](std::int64_t i) {
            return static_cast<float>(sum * static_cast<double>(i % 7 + 1));
        };
        run(world, "all-reduce", 2.0 * (n - 1) / n * bytes, whole_.tensor(), whole_.tensor(), times,
            [&] { group_.all_reduce(whole_.tensor(), comm::ReduceOp::sum); });
        run(
            world, "reduce-scatter", (n - 1.0) / n * bytes, whole_.tensor(), small_.tensor(),
            [&](std::int64_t i) { return times(group_.rank() * part_ + i); },
            [&] { group_.reduce_scatter(whole_.tensor(), small_.tensor()); });
        run(
            world, "all-gather", (n - 1.0) / n * bytes, small_.tensor(), whole_.tensor(),
            [&](std::int64_t i) { return value_of(static_cast<int>(i / part_), i % part_); },
            [&] { group_.all_gather(small_.tensor(), whole_.tensor()); });
    }

    // Each rank to the next, in a ring, as stages do.
    void ring(comm::HostGroup& world) {
        const int n = group_.size(), after = (group_.rank() + 1) % n, before = (group_.rank() + n - 1) % n;
        const Buffer arriving(backend_, Shape{part_}, DType::f32);
        run(
            world, "send-receive", static_cast<double>(part_) * sizeof(float), small_.tensor(),
            arriving.tensor(), [&](std::int64_t i) { return value_of(before, i); },
            [&] {
                comm::Request in = group_.receive(arriving.tensor(), before, 0);
                comm::Request out = group_.send(small_.tensor(), after, 0);
                group_.wait(in);
                group_.wait(out);
            });
    }

  private:
    void run(comm::HostGroup& world, const std::string& operation, double bus_bytes, const Tensor& from,
             const Tensor& to, const std::function<float(std::int64_t)>& expected,
             const std::function<void()>& once) {
        fill(from);
        once();
        const std::int64_t wrong = differences(to, expected);
        backend_.compute().fill(from, 0); // sums of zeros stay in range, however often
        backend_.synchronize(StreamRole::compute);
        const int times = on_gpu(backend_) ? 20 : 8;
        world.barrier();
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < times; ++i)
            once();
        backend_.synchronize(role_);
        const double seconds = seconds_since(start) / times;
        const std::string name = concat("group.", name_, ".", operation);
        facts_.set(name + ".gbs", bus_bytes / seconds / 1e9);
        facts_.set(name + ".wrong", wrong);
    }

    void fill(const Tensor& to) {
        std::vector<float> values(static_cast<std::size_t>(to.elements()));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = value_of(group_.rank(), static_cast<std::int64_t>(i));
        backend_.copy_to_device(Tensor(std::span(values), to.shape()), to);
    }

    std::int64_t differences(const Tensor& from, const std::function<float(std::int64_t)>& expected) {
        backend_.synchronize(role_);
        std::vector<float> values(static_cast<std::size_t>(from.elements()));
        backend_.copy_to_host(from, Tensor(std::span(values), from.shape()));
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i)
            wrong += values[i] == expected(static_cast<std::int64_t>(i)) ? 0 : 1; // a NaN is wrong, too
        return wrong;
    }

    comm::Communicator& group_;
    std::string name_;
    StreamRole role_;
    backend::Backend& backend_;
    Facts& facts_;
    std::int64_t part_; // elements of a rank
    std::int64_t whole_elements_;
    Buffer whole_, small_;
};

} // namespace

void measure_matrices(backend::Backend& backend, Facts& facts) {
    const comm::PhaseScope phase("measuring matrix products");
    const std::int64_t n = on_gpu(backend) ? 8192 : 384;
    const DType type = on_gpu(backend) ? DType::bf16 : DType::f32;
    const Buffer x(backend, Shape{n, n}, type), weight(backend, Shape{n, n}, type),
        y(backend, Shape{n, n}, type);
    backend.compute().fill(x.tensor(), 0.5); // zeros would draw less power than a run does
    backend.compute().fill(weight.tensor(), 0.25);
    const auto batch = [&](int count) {
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < count; ++i)
            backend.compute().linear_forward(x.tensor(), weight.tensor(), {}, y.tensor());
        backend.synchronize(StreamRole::compute);
        return seconds_since(start) / count;
    };
    batch(1); // libraries load what they need
    // Long enough to be interrupted by whoever shares the core.
    const int count = std::clamp(static_cast<int>(0.08 / batch(2)), 1, 1000);
    std::array<double, 5> seconds{};
    for (double& each : seconds)
        each = batch(count);
    std::ranges::sort(seconds);
    facts.set("matrix_gflops", 2.0 * static_cast<double>(n) * static_cast<double>(n) *
                                   static_cast<double>(n) / seconds[2] / 1e9);
}

void measure_groups(comm::Runtime& runtime, const topology::Grid& grid, backend::Backend& backend,
                    Facts& facts) {
    const comm::PhaseScope phase("measuring communication");
    comm::ProcessGroups groups(runtime, grid, backend);
    const auto place = [&](const comm::Communicator& group) {
        std::set<std::string> hosts;
        for (const int rank : group.world_ranks())
            hosts.insert(runtime.hosts()[static_cast<std::size_t>(rank)]);
        return hosts.size() > 1 ? "across" : "inside";
    };
    const auto describe = [&](const std::string& name, const comm::Communicator& group) {
        std::string members;
        for (const int rank : group.world_ranks())
            members += concat(members.empty() ? "" : ",", rank);
        facts.set("members." + name, members);
        facts.set("place." + name, std::string(place(group)));
    };
    // All groups of a kind at once, as in a step. Every rank is in one of each kind, all of one size.
    if (grid.tensor > 1) {
        describe("tensor", *groups.tensor);
        GroupBench(*groups.tensor, "tensor", StreamRole::compute, backend, facts)
            .collectives(runtime.world());
    }
    if (grid.data > 1) {
        describe("data", *groups.data);
        GroupBench(*groups.data, "data", StreamRole::gradient_reduction, backend, facts)
            .collectives(runtime.world());
    }
    if (grid.pipeline > 1) {
        describe("pipeline", *groups.pipeline);
        GroupBench(*groups.pipeline, "pipeline", StreamRole::pipeline, backend, facts).ring(runtime.world());
    }
}

} // namespace trireme::cluster
