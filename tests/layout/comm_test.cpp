// ranks: 1 2 3 4 8
// Collectives and messages against a plain loop over all ranks' inputs, which every rank can compute for
// itself. Sums of values of very different size must have the bits of the left-to-right sum, whatever the
// size of message or scratch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "comm/mpi/mpi_communicator.hpp"
#include "support/host_memory.hpp"
#include "support/mpi_test.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::comm {

namespace {

using test::HostBackend;
using test::runtime;

// Rank `rank`'s element i: signs and twelve binary orders of magnitude, so that the order of additions shows.
template <class T>
T value_of(int rank, std::int64_t i) {
    const PhiloxCounter draw =
        philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(rank), 7, 0}, {1, 2});
    const double mantissa = uniform_double(draw[0], draw[1]) * 2 - 1;
    return static_cast<T>(static_cast<float>(std::ldexp(mantissa, static_cast<int>(draw[2] % 12))));
}
template <>
double value_of<double>(int rank, std::int64_t i) {
    const PhiloxCounter draw =
        philox4x32({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(rank), 8, 0}, {1, 2});
    return std::ldexp(uniform_double(draw[0], draw[1]) * 2 - 1, static_cast<int>(draw[2] % 12));
}
template <>
std::int32_t value_of<std::int32_t>(int rank, std::int64_t i) {
    return static_cast<std::int32_t>(i % 1000 - 37 * rank);
}
template <>
std::int64_t value_of<std::int64_t>(int rank, std::int64_t i) {
    return (std::int64_t{1} << 40) * rank + i;
}

template <class T>
std::vector<T> values_of(int rank, std::int64_t count, std::int64_t first = 0) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
        values[static_cast<std::size_t>(i)] = value_of<T>(rank, first + i);
    return values;
}

// x_0 + x_1 + ... one after the other.
template <class T>
T sum_of(int ranks, std::int64_t i) {
    T total = value_of<T>(0, i);
    for (int r = 1; r < ranks; ++r)
        total = static_cast<T>(total + value_of<T>(r, i));
    return total;
}
template <class T>
requires kIsNarrow<T> T sum_of(int ranks, std::int64_t i) {
    float total = static_cast<float>(value_of<T>(0, i));
    for (int r = 1; r < ranks; ++r)
        total += static_cast<float>(value_of<T>(r, i));
    return T(total);
}

template <class T>
Tensor tensor_of(std::vector<T>& values) {
    return Tensor(std::span<T>(values), Shape{static_cast<std::int64_t>(values.size())});
}

// The first element that differs in its bits, or -1.
template <class T>
std::int64_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size())
        return 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
            return static_cast<std::int64_t>(i);
    return -1;
}

// Scratch and messages so small that every path takes several pieces, the last one short.
constexpr MpiLimits kTiny{.scratch_bytes = 1024, .direct_bytes = 512, .message_bytes = 256};

std::unique_ptr<Communicator>
make_world(HostBackend& memory, const MpiLimits& limits = {},
           std::shared_ptr<MpiProgress> progress = std::make_shared<MpiProgress>()) {
    if (runtime().ranks() == 1)
        return make_self_communicator("world group");
    return std::make_unique<MpiCommunicator>("world group",
                                             duplicate(mpi_comm(runtime().world()), "world group"), memory,
                                             std::move(progress), limits);
}

template <class T>
class CommSum : public testing::Test {};
using Types = testing::Types<float, double, BFloat16, Float16, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CommSum, Types);

TYPED_TEST(CommSum, AllReduceHasTheBitsOfTheSumInRankOrder) {
    using T = TypeParam;
    HostBackend memory;
    for (const MpiLimits& limits : {MpiLimits{}, kTiny}) {
        const auto world = make_world(memory, limits);
        for (const std::int64_t count : {1, 7, 64, 1000, 40'001}) {
            std::vector<T> x = values_of<T>(world->rank(), count), expected(x.size());
            for (std::int64_t i = 0; i < count; ++i)
                expected[static_cast<std::size_t>(i)] = sum_of<T>(world->size(), i);
            world->all_reduce(tensor_of(x), ReduceOp::sum);
            EXPECT_EQ(first_difference(x, expected), -1)
                << count << " elements, scratch " << limits.scratch_bytes;
        }
    }
}

TYPED_TEST(CommSum, AllReduceBeyondTheScratchMemory) {
    using T = TypeParam;
    HostBackend memory;
    const auto world = make_world(memory);
    const std::int64_t count =
        3 * MpiCommunicator::scratch_bytes(2) / static_cast<std::int64_t>(sizeof(T)) + 5;
    std::vector<T> x(static_cast<std::size_t>(count)), expected(x.size());
    for (std::int64_t i = 0; i < count; ++i) { // a period of 1009 keeps the test short
        x[static_cast<std::size_t>(i)] = value_of<T>(world->rank(), i % 1009);
        expected[static_cast<std::size_t>(i)] =
            i < 1009 ? sum_of<T>(world->size(), i) : expected[static_cast<std::size_t>(i - 1009)];
    }
    world->all_reduce(tensor_of(x), ReduceOp::sum);
    EXPECT_EQ(first_difference(x, expected), -1);
}

TYPED_TEST(CommSum, ReduceScatterHasTheSameBits) {
    using T = TypeParam;
    HostBackend memory;
    for (const MpiLimits& limits : {MpiLimits{}, kTiny}) {
        const auto world = make_world(memory, limits);
        for (const std::int64_t part : {1, 33, 5'000}) {
            std::vector<T> from = values_of<T>(world->rank(), part * world->size());
            std::vector<T> to(static_cast<std::size_t>(part)), expected(to.size());
            for (std::int64_t i = 0; i < part; ++i)
                expected[static_cast<std::size_t>(i)] = sum_of<T>(world->size(), world->rank() * part + i);
            world->reduce_scatter(tensor_of(from), tensor_of(to));
            EXPECT_EQ(first_difference(to, expected), -1) << part << " elements a rank";
            EXPECT_EQ(first_difference(from, values_of<T>(world->rank(), part * world->size())), -1);

            const Tensor all = tensor_of(from); // in place
            world->reduce_scatter(all, all.flat(world->rank() * part, part));
            const std::vector<T> own(from.begin() + world->rank() * part,
                                     from.begin() + (world->rank() + 1) * part);
            EXPECT_EQ(first_difference(own, expected), -1) << part << " elements a rank, in place";
        }
    }
}

TYPED_TEST(CommSum, AllGatherAndBroadcast) {
    using T = TypeParam;
    HostBackend memory;
    for (const MpiLimits& limits : {MpiLimits{}, kTiny}) {
        const auto world = make_world(memory, limits);
        for (const std::int64_t count : {1, 33, 5'000}) {
            std::vector<T> expected;
            for (int r = 0; r < world->size(); ++r)
                for (const T& value : values_of<T>(r, count))
                    expected.push_back(value);
            std::vector<T> from = values_of<T>(world->rank(), count), to(expected.size());
            world->all_gather(tensor_of(from), tensor_of(to));
            EXPECT_EQ(first_difference(to, expected), -1) << count << " elements a rank";

            std::vector<T> in_place(expected.size());
            std::ranges::copy(from, in_place.begin() + world->rank() * count);
            const Tensor all = tensor_of(in_place);
            world->all_gather(all.flat(world->rank() * count, count), all);
            EXPECT_EQ(first_difference(in_place, expected), -1) << count << " elements a rank, in place";

            const int root = world->size() - 1;
            world->broadcast(tensor_of(from), root);
            EXPECT_EQ(first_difference(from, values_of<T>(root, count)), -1) << count << " elements";
        }
    }
}

// Several collectives in flight, blocking ones in between, waited for in another order: each has the bits of
// its blocking twin.
TYPED_TEST(CommSum, StartedCollectivesHaveTheSameBits) {
    using T = TypeParam;
    HostBackend memory;
    for (const MpiLimits& limits : {MpiLimits{}, kTiny}) {
        const auto world = make_world(memory, limits);
        const std::int64_t size = world->size(), count = 1001, rank = world->rank();
        std::vector<T> first = values_of<T>(world->rank(), count), second = values_of<T>(world->rank(), 5),
                       blocking = values_of<T>(world->rank(), 300),
                       from = values_of<T>(world->rank(), size * count), to(static_cast<std::size_t>(count)),
                       whole(static_cast<std::size_t>(size * count));
        const std::vector<T> part = values_of<T>(world->rank(), count);
        Request sum = world->start_all_reduce(tensor_of(first), ReduceOp::sum);
        Request small = world->start_all_reduce(tensor_of(second), ReduceOp::sum);
        Request scattered = world->start_reduce_scatter(tensor_of(from), tensor_of(to));
        world->progress();
        world->all_reduce(tensor_of(blocking), ReduceOp::sum);
        auto source = part;
        Request gathered = world->start_all_gather(tensor_of(source), tensor_of(whole));
        for (Request* const request : {&gathered, &scattered, &sum, &small, &sum}) {
            world->wait(*request);
            EXPECT_FALSE(request->pending());
        }
        const auto expect_sums = [&](const std::vector<T>& got, std::int64_t begin) {
            std::vector<T> expected(got.size());
            for (std::size_t i = 0; i < got.size(); ++i)
                expected[i] = sum_of<T>(world->size(), begin + static_cast<std::int64_t>(i));
            EXPECT_EQ(first_difference(got, expected), -1) << got.size() << " sums from " << begin;
        };
        expect_sums(first, 0);
        expect_sums(second, 0);
        expect_sums(blocking, 0);
        expect_sums(to, rank * count);
        std::vector<T> expected;
        for (int r = 0; r < world->size(); ++r) {
            const std::vector<T> of_rank = values_of<T>(r, count);
            expected.insert(expected.end(), of_rank.begin(), of_rank.end());
        }
        EXPECT_EQ(first_difference(whole, expected), -1);
    }
}

// Rank 0 waits for a message that rank 1 sends only once a collective is through that rank 0 has started and
// not waited for: its wait must move the collective on, or both wait for ever.
TEST(Comm, WaitingElsewhereMovesCollectivesOn) {
    if (runtime().ranks() == 1)
        GTEST_SKIP() << "one rank waits for nobody";
    HostBackend memory;
    const auto progress = std::make_shared<MpiProgress>();
    const auto data = make_world(memory, kTiny, progress), pipeline = make_world(memory, {}, progress);
    std::vector<double> x = values_of<double>(data->rank(), 5000);
    double word = data->rank();
    Request sum = data->start_all_reduce(tensor_of(x), ReduceOp::sum);
    if (data->rank() == 0) {
        Request received = pipeline->receive(Tensor(&word, Shape{1}, DType::f64), 1, 0);
        pipeline->wait(received);
        EXPECT_EQ(word, 1);
        data->wait(sum);
    } else {
        data->wait(sum);
        if (data->rank() == 1) {
            Request sent = pipeline->send(Tensor(&word, Shape{1}, DType::f64), 0, 0);
            pipeline->wait(sent);
        }
    }
    for (std::int64_t i = 0; i < 5000; ++i)
        ASSERT_EQ(x[static_cast<std::size_t>(i)], sum_of<double>(data->size(), i));
}

TEST(Comm, MaximumAndNaN) {
    HostBackend memory;
    for (const MpiLimits& limits : {MpiLimits{}, kTiny}) {
        const auto world = make_world(memory, limits);
        std::vector<double> x = values_of<double>(world->rank(), 777), expected(x.size());
        for (std::int64_t i = 0; i < 777; ++i) {
            expected[static_cast<std::size_t>(i)] = value_of<double>(0, i);
            for (int r = 1; r < world->size(); ++r)
                expected[static_cast<std::size_t>(i)] =
                    std::max(expected[static_cast<std::size_t>(i)], value_of<double>(r, i));
        }
        const int with_nan = world->size() / 2;
        if (world->rank() == with_nan)
            x[300] = std::numeric_limits<double>::quiet_NaN();
        world->all_reduce(tensor_of(x), ReduceOp::max);
        EXPECT_TRUE(std::isnan(x[300])) << x[300];
        x[300] = expected[300];
        EXPECT_EQ(first_difference(x, expected), -1);
    }
}

TEST(Comm, MessagesKeepTheirOrderWithinAChannel) {
    HostBackend memory;
    for (const MpiLimits& limits : {MpiLimits{}, kTiny}) {
        const auto world = make_world(memory, limits);
        if (world->size() == 1)
            return; // nobody to send to
        const int next = (world->rank() + 1) % world->size();
        const int previous = (world->rank() + world->size() - 1) % world->size();
        constexpr int kMessages = 5, kChannels = 2;
        constexpr std::int64_t kCount = 1500;
        std::vector<std::vector<float>> sent, received;
        std::vector<Request> sends, receives;
        for (int i = 0; i < kMessages * kChannels; ++i) {
            sent.push_back(values_of<float>(world->rank(), kCount, i * kCount));
            received.emplace_back(kCount);
        }
        // Receives are posted ahead, channel by channel; the sends alternate.
        for (int channel = 0; channel < kChannels; ++channel)
            for (int m = 0; m < kMessages; ++m)
                receives.push_back(
                    world->receive(tensor_of(received[static_cast<std::size_t>(channel * kMessages + m)]),
                                   previous, channel));
        for (int m = 0; m < kMessages; ++m)
            for (int channel = 0; channel < kChannels; ++channel)
                sends.push_back(world->send(
                    tensor_of(sent[static_cast<std::size_t>(channel * kMessages + m)]), next, channel));
        for (auto request = receives.rbegin(); request != receives.rend(); ++request)
            world->wait(*request);
        for (Request& request : sends) {
            world->wait(request);
            EXPECT_EQ(request.slot, -1);
            world->wait(request); // nothing to wait for
        }
        for (int i = 0; i < kMessages * kChannels; ++i)
            EXPECT_EQ(first_difference(received[static_cast<std::size_t>(i)],
                                       values_of<float>(previous, kCount, i * kCount)),
                      -1)
                << "message " << i;
    }
}

TEST(Comm, ManyTransfersReuseTheirSlots) {
    HostBackend memory;
    const auto world = make_world(memory);
    if (world->size() == 1)
        return; // nobody to send to
    const int next = (world->rank() + 1) % world->size();
    const int previous = (world->rank() + world->size() - 1) % world->size();
    for (int i = 0; i < 600; ++i) { // more than there are slots
        double out = world->rank() * 1000 + i, in = -1;
        Request receive = world->receive(Tensor(&in, Shape{1}, DType::f64), previous, i % 7);
        Request send = world->send(Tensor(&out, Shape{1}, DType::f64), next, i % 7);
        world->wait(receive);
        world->wait(send);
        ASSERT_EQ(in, previous * 1000 + i);
    }
}

TEST(Comm, TakesItsScratchOnceAndGivesItBack) {
    HostBackend memory;
    {
        const auto world = make_world(memory);
        EXPECT_EQ(memory.allocated_bytes(), MpiCommunicator::scratch_bytes(world->size()));
        EXPECT_LE(memory.allocations(), 1);
        const std::int64_t allocations = memory.allocations();
        std::vector<float> x(100'000, 1.0f);
        world->all_reduce(tensor_of(x), ReduceOp::sum);
        EXPECT_EQ(x[99'999], static_cast<float>(world->size()));
        EXPECT_EQ(memory.allocations(), allocations);
    }
    EXPECT_EQ(memory.allocated_bytes(), 0);
}

TEST(Comm, RefusesWrongArguments) {
    HostBackend memory;
    const auto world = make_world(memory);
    std::vector<float> x(10), y(10 * static_cast<std::size_t>(world->size()) + 1);
    std::vector<double> z(10 * static_cast<std::size_t>(world->size()));
    std::vector<std::uint8_t> bytes(4);
    EXPECT_THROW(world->all_gather(tensor_of(x), tensor_of(y)), Error);
    EXPECT_THROW(world->all_gather(tensor_of(x), tensor_of(z)), Error);
    EXPECT_THROW(world->reduce_scatter(tensor_of(y), tensor_of(x)), Error);
    EXPECT_THROW(world->all_reduce(tensor_of(bytes), ReduceOp::sum), Error);
    EXPECT_THROW(world->broadcast(tensor_of(x), world->size()), Error);
    EXPECT_THROW(world->send(tensor_of(x), world->rank(), 0), Error);
    EXPECT_THROW(world->all_reduce(Tensor(nullptr, Shape{3}, DType::f32), ReduceOp::sum), Error);
}

TEST(HostGroup, ValuesOfAnyLength) {
    HostGroup& world = runtime().world();
    const auto text_of = [](int rank) { // of very different lengths, one empty
        return rank == 1
                   ? std::string()
                   : std::string(static_cast<std::size_t>(rank * 100'000 + 3), static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all = world.all_gather(text_of(world.rank()));
    ASSERT_EQ(all.size(), static_cast<std::size_t>(world.size()));
    for (int r = 0; r < world.size(); ++r)
        EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r)) << "from rank " << r;

    const int root = world.size() - 1;
    const std::string long_text(70'000'000, 'x'); // more than one piece
    EXPECT_EQ(world.broadcast(world.rank() == root ? long_text : "", root).size(), long_text.size());

    std::vector<double> values = values_of<double>(world.rank(), 5);
    world.all_reduce(values, ReduceOp::sum);
    for (std::int64_t i = 0; i < 5; ++i)
        EXPECT_EQ(values[static_cast<std::size_t>(i)], sum_of<double>(world.size(), i));
    world.barrier();
}

TEST(Runtime, KnowsWhoIsWhere) {
    comm::Runtime& r = runtime();
    EXPECT_EQ(static_cast<int>(r.hosts().size()), r.ranks());
    EXPECT_EQ(r.hosts()[static_cast<std::size_t>(r.rank())], r.host());
    EXPECT_GE(r.local_rank(), 0);
    EXPECT_LT(r.local_rank(), r.ranks_on_node());
    EXPECT_STREQ(std::getenv("OMPI_MCA_io"), "^ompio");
}

// Every layout of this number of ranks: each group sums its members' world ranks.
TEST(ProcessGroups, HaveThePlannedMembers) {
    HostBackend memory;
    comm::Runtime& r = runtime();
    for (int tp = 1; tp <= r.ranks(); ++tp)
        for (int dp = 1; tp * dp <= r.ranks(); ++dp) {
            if (r.ranks() % (tp * dp) != 0)
                continue;
            const int holders = tp % 2 == 0 ? 2 : 1;
            const topology::Grid grid{
                .tensor = tp, .data = dp, .pipeline = r.ranks() / (tp * dp), .key_value_holders = holders};
            ProcessGroups groups(r, grid, memory);
            EXPECT_EQ(memory.allocated_bytes(),
                      ProcessGroups::scratch_bytes(grid, groups.at, backend::Device::cpu));
            const auto sum_of_ranks = [&](Communicator& group) {
                std::int64_t sum = r.rank();
                group.all_reduce(Tensor(&sum, Shape{1}, DType::i64), ReduceOp::sum);
                return sum;
            };
            // From the picture in topology/grid.hpp: rank = t + TP * (d + DP * p).
            const int t = r.rank() % tp, d = r.rank() / tp % dp, p = r.rank() / (tp * dp);
            const auto expected = [&](auto member) {
                std::int64_t sum = 0;
                for (int other = 0; other < r.ranks(); ++other)
                    if (member(other % tp, other / tp % dp, other / (tp * dp)))
                        sum += other;
                return sum;
            };
            EXPECT_EQ(sum_of_ranks(*groups.tensor),
                      expected([&](int, int d2, int p2) { return d2 == d && p2 == p; }));
            EXPECT_EQ(sum_of_ranks(*groups.key_value), expected([&](int t2, int d2, int p2) {
                          return t2 / holders == t / holders && d2 == d && p2 == p;
                      }));
            EXPECT_EQ(sum_of_ranks(*groups.data),
                      expected([&](int t2, int, int p2) { return t2 == t && p2 == p; }));
            EXPECT_EQ(sum_of_ranks(*groups.pipeline),
                      expected([&](int t2, int d2, int) { return t2 == t && d2 == d; }));
            EXPECT_EQ(sum_of_ranks(*groups.model), expected([&](int, int d2, int) { return d2 == d; }));
            const int last = grid.pipeline - 1;
            EXPECT_EQ(groups.embedding != nullptr, p == 0 || p == last);
            if (groups.embedding) {
                EXPECT_EQ(sum_of_ranks(*groups.embedding), expected([&](int t2, int d2, int p2) {
                              return t2 == t && d2 == d && (p2 == 0 || p2 == last);
                          }));
            }
            EXPECT_EQ(groups.stage->size(), tp * dp);
            EXPECT_EQ(groups.pipeline->rank(), p);
        }
    EXPECT_EQ(memory.allocated_bytes(), 0);
}

// Every other rank makes up a part, and each part is a layout of its own.
TEST(ProcessGroups, OverAPartOfTheWorld) {
    HostBackend memory;
    comm::Runtime& r = runtime();
    const int number = r.rank() % 2, size = (r.ranks() + 1 - number) / 2;
    const auto part = r.part(number);
    ASSERT_EQ(part->size(), size);
    EXPECT_EQ(part->rank(), r.rank() / 2);
    if (number == 0) { // the others have nothing to do with it
        const ProcessGroups groups(*part, {.tensor = 1, .data = size, .pipeline = 1}, memory);
        EXPECT_EQ(groups.world, part.get());
        EXPECT_EQ(groups.at.data, r.rank() / 2);
        std::int64_t sum = r.rank();
        groups.data->all_reduce(Tensor(&sum, Shape{1}, DType::i64), ReduceOp::sum);
        EXPECT_EQ(sum, size * (size - 1)); // 0 + 2 + 4 + ...
        EXPECT_EQ(groups.data->world_ranks().back(), 2 * (size - 1));
    }
}

} // namespace

} // namespace trireme::comm
