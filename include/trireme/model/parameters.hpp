// The parameters that one rank holds: which ones, in which flat buckets of weights and main gradients they
// lie.
//
// A bucket is a flat buffer that data-parallel ranks reduce as one message and that ZeRO-1 can cut into equal
// ranges: its length is a multiple of kAlignment * DP. Parameters stand in it pack by pack, in reverse model
// order (their gradients are complete in that order), each pack aligned to kAlignment elements, the members
// of a pack without gaps, so that query, key and value are one matrix to the run and three parameters to
// everybody else. Tied embeddings have a bucket of their own, so that both copies are cut alike; parameters
// that all tensor ranks hold whole have buckets apart from those cut over them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/memory/arena.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/topology/grid.hpp"
#include "trireme/topology/placement.hpp"

namespace trireme::model {

enum class BucketKind : std::uint8_t { split, replicated, tied };
enum class Role : std::uint8_t { owner, copy }; // copy: the tied embedding on the last stage of several

// One logical parameter as this rank holds it.
struct HeldParameter {
    catalogue::Parameter parameter;
    catalogue::Shard shard;
    Role role = Role::owner;
    int bucket = 0;
    topology::Interval flat; // elements of the bucket, padding rows included
};

struct Bucket {
    BucketKind kind = BucketKind::split;
    int chunk = 0;
    Role role = Role::owner;
    std::int64_t elements = 0;        // with padding
    std::vector<std::size_t> members; // indices into held(), ascending flat position
};

// Elements of a parameter as they were drawn, in host memory that lasts for the call.
struct DrawnPart {
    const HeldParameter& held;
    std::int64_t begin = 0; // of the elements of its local shard
    Tensor values;          // [n] of the type of main gradients
    Tensor rest; // [n] int16, what bf16 weights lack of them (SplitFloat); undefined for other types
};

struct ParameterSetup {
    catalogue::ModelConfig config;
    topology::Grid grid;
    topology::Coordinates at;
    topology::Placement placement;
    DType weight_type = DType::f32;
    DType gradient_type = DType::f32;          // of main gradients
    std::int64_t bucket_elements = 40'000'000; // a bucket is closed when it is at least this long
};

class Parameters {
  public:
    static constexpr std::int64_t kAlignment = 64; // elements

    Parameters(const ParameterSetup& setup, memory::Plan& plan);
    void bind(const memory::Arena& arena);

    // Initial values of everything held (copies included), through host memory, drawn by `threads` threads;
    // their number does not change a bit. `drawn` is told of each part before it is rounded to the type of
    // weights.
    void initialise(std::uint64_t seed, backend::Backend& backend, int threads,
                    const std::function<void(const DrawnPart&)>& drawn = {});

    std::span<const HeldParameter> held() const { return held_; }
    std::span<const Bucket> buckets() const { return buckets_; }
    Tensor bucket_weights(std::size_t bucket) const { return weights_[bucket]; }     // [elements]
    Tensor bucket_gradients(std::size_t bucket) const { return gradients_[bucket]; } // [elements], main type

    // The local tensor of a whole pack, flat; who uses it gives it a shape.
    Tensor weight(std::string_view pack) const;
    Tensor gradient(std::string_view pack) const;
    // The local tensor of one parameter, in its shard's shape.
    Tensor weight(const HeldParameter& held) const;
    Tensor gradient(const HeldParameter& held) const;

    const ParameterSetup& setup() const { return setup_; }
    // Local elements without alignment gaps; owners only, or copies too.
    std::int64_t local_elements() const;

  private:
    struct Pack {
        int bucket;
        topology::Interval flat;
    };
    void choose_held();
    void fill_buckets();
    template <class Drawn, class Kept>
    void initialise_as(std::uint64_t seed, backend::Backend& backend, int threads,
                       const std::function<void(const DrawnPart&)>& drawn);
    const Pack& pack(std::string_view name) const;

    ParameterSetup setup_;
    std::vector<HeldParameter> held_;
    std::vector<Bucket> buckets_;
    std::unordered_map<std::string, Pack> packs_;
    std::vector<memory::Item> weight_items_, gradient_items_;
    std::vector<Tensor> weights_, gradients_;
};

} // namespace trireme::model
