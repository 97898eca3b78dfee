// Finds and loads checkpoints. Each rank opens the stage files that hold what it needs and reads its own
// boxes.
#include <algorithm>
#include <charconv>
#include <mutex>
#include <thread>

#include "float_types.hpp"
#include "index.hpp"
#include "names.hpp"
#include "share.hpp"
#include "stage_reader.hpp"
#include "trireme/base/file.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/storage/pieces.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

void check_shapes(const fs::path& checkpoint, const Contents& contents, const model::ParameterSetup& setup) {
    std::vector<std::string> wrong;
    const std::vector<catalogue::Parameter> wanted =
        catalogue::make_catalogue(setup.config, setup.grid.tensor);
    for (const catalogue::Parameter& parameter : wanted) {
        const std::optional<std::size_t> found = contents.find_tensor(parameter.name);
        if (!found)
            wrong.push_back(concat(parameter.name, ": not in the checkpoint"));
        else if (contents.tensors[*found].shape != parameter.shape)
            wrong.push_back(concat(parameter.name, ": ", Shape(contents.tensors[*found].shape).text(),
                                   " in the checkpoint, ", Shape(parameter.shape).text(), " by the options"));
    }
    if (wrong.empty() && contents.tensors.size() > wanted.size())
        wrong.push_back(
            concat("it has ", contents.tensors.size(), " tensors, the model by the options ", wanted.size()));
    if (wrong.empty())
        return;
    constexpr std::size_t kShown = 5;
    std::vector<std::string> details(
        wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, wrong.size())));
    if (wrong.size() > kShown)
        details.push_back(concat("and ", wrong.size() - kShown, " more"));
    details.push_back("try: the options that it was trained with (h5dump -d /options " +
                      (checkpoint / kIndexFile).string() + "), or another --load");
    throw Error(ErrorCategory::checkpoint, concat(checkpoint.string(), " is of another model"),
                std::move(details));
}

// Widens or narrows between the float types of files and memory, on the host.
void convert(const Tensor& from, Tensor to) {
    visit_floats(from, [&](auto values) {
        visit_floats(to, [&](auto results) {
            using Result = typename decltype(results)::value_type;
            for (std::size_t i = 0; i < values.size(); ++i)
                results[i] = float_cast<Result>(values[i]);
        });
    });
}

// What the numbers have beyond bf16.
void take_rests(const Tensor& from, std::span<std::int16_t> to) {
    visit_floats(from, [&](auto values) {
        for (std::size_t i = 0; i < values.size(); ++i)
            to[i] = SplitFloat(float_cast<float>(values[i])).rest;
    });
}

// Reads boxes of tensors into device memory, whatever float type the file has: first all are asked for, then
// they are read in the order of the file, which is what the system reads ahead, by two threads, each a half:
// one waits for the disk while the other hashes.
class TensorReader {
  public:
    TensorReader(const fs::path& checkpoint, const Index& index, backend::Backend& backend)
        : checkpoint_(checkpoint), index_(index), backend_(backend), sums_(index.contents.empty_sums()) {}

    void ask_for(const std::string& group, const std::string& parameter, const optimizer::StatePart& part) {
        const Contents& contents = index_.contents;
        const std::size_t slot =
            contents.slot(contents.find_group(group).value(), contents.find_tensor(parameter).value());
        for (storage::BoxPiece& piece : storage::cut(part.box, kPieceElements)) {
            // The upper halves come with the weights.
            const Tensor& wanted = part.rest.defined() ? part.rest : part.tensor;
            const Tensor device = wanted.flat(piece.first, piece.box.elements());
            asked_for_.push_back({slot, std::move(piece.box), device, {}});
        }
    }

    void read_all() {
        std::ranges::stable_sort(asked_for_, {}, &Piece::slot);
        const std::span<const Piece> all = asked_for_;
        const std::size_t half = all.size() / 2;
        const std::unique_ptr<comm::HostGroup> alone = comm::make_self_host_group();
        std::optional<Error> failure;
        {
            const std::jthread other(
                [&] { failure = comm::attempt(*alone, [&] { read_some(all.subspan(half)); }); });
            read_some(all.first(half));
        }
        if (failure)
            throw Error(*failure);
    }
    const SumTable& sums() const { return sums_; } // of all that was read

  private:
    static constexpr std::int64_t kPieceElements = std::int64_t{1} << 20; // copied to the device at a time

    void read_some(std::span<const Piece> pieces) {
        StageReader reader(checkpoint_, index_);
        std::vector<std::byte> staging, converted;
        for (const Piece& piece : pieces)
            read(piece, reader, staging, converted);
        const std::scoped_lock lock(mutex_);
        sums_.add(reader.sums());
    }

    // Elements are hashed as they stand in the file, so they are read in its type.
    void read(const Piece& piece, StageReader& reader, std::vector<std::byte>& staging,
              std::vector<std::byte>& converted) {
        const DType in_file = reader.type(piece.slot), wanted = piece.tensor.type();
        const std::int64_t elements = piece.box.elements();
        const bool in_place = in_file == wanted && backend_.device() == backend::Device::cpu;
        const Tensor host = in_place ? piece.tensor : on_host(elements, in_file, staging);
        reader.read(piece.slot, piece.box,
                    {static_cast<std::byte*>(host.data()), static_cast<std::size_t>(host.bytes())});
        if (in_place)
            return;
        const Tensor ready = in_file == wanted ? host : on_host(elements, wanted, converted);
        if (wanted == DType::i16)
            take_rests(host, ready.values<std::int16_t>());
        else if (in_file != wanted)
            convert(host, ready);
        const std::scoped_lock lock(mutex_);
        backend_.copy_to_device(ready, piece.tensor);
    }
    static Tensor on_host(std::int64_t elements, DType type, std::vector<std::byte>& memory) {
        memory.resize(std::max(memory.size(), static_cast<std::size_t>(elements * size_bytes(type))));
        return {memory.data(), Shape{elements}, type};
    }

    const fs::path& checkpoint_;
    const Index& index_;
    backend::Backend& backend_;
    std::vector<Piece> asked_for_;
    std::mutex mutex_; // of the backend and the sums
    SumTable sums_;
};

// What all ranks together have read, against the sums in the index.
void compare_sums(const fs::path& checkpoint, const Index& index, SumTable found, comm::HostGroup& world) {
    if (!index.sums)
        return;
    found.all_reduce(world);
    const std::vector<Difference> wrong = differences(found, *index.sums);
    comm::agree(world, [&] {
        if (wrong.empty())
            return;
        const Difference& first = wrong.front();
        const TensorEntry& tensor = index.contents.tensor(first.slot);
        throw Error(ErrorCategory::checkpoint, concat(checkpoint.string(), " is damaged"),
                    {concat(stage_name(tensor.stage), " ", index.contents.dataset(first.slot), " elements ",
                            first.range.begin, " to ", first.range.end - 1, ": ", first.what),
                     concat(wrong.size(), wrong.size() == 1 ? " range is" : " ranges are", " wrong"),
                     "try: an earlier checkpoint (--ckpt-step), or a copy of this one"});
    });
}

} // namespace

State read_state(const fs::path& checkpoint) {
    return read_index(checkpoint).state;
}

void require_model(const fs::path& checkpoint, const model::Parameters& parameters) {
    check_shapes(checkpoint, read_index(checkpoint).contents, parameters.setup());
}

void load(const fs::path& checkpoint, const Model& model, Loads loads) {
    using optimizer::StateKind;
    const comm::PhaseScope phase("loading a checkpoint");
    comm::HostGroup& world = *model.groups->world;
    std::optional<Index> index;
    std::optional<TensorReader> reader;
    comm::agree(world, [&] {
        index = read_index(checkpoint);
        check_shapes(checkpoint, index->contents, model.parameters->setup());
        reader.emplace(checkpoint, *index, *model.backend);
        const char* master =
            index->state.has_master_weights ? group_of(StateKind::master_weights) : kParameters;
        // The most exact weights there are, rounded if this run's are narrower.
        for (const model::HeldParameter& held : model.parameters->held())
            if (const topology::Box& box = held.shard.box; !box.empty())
                reader->ask_for(master, held.parameter.name,
                                {box, model.parameters->weight(held).flat(0, box.elements())});
        for (const StateKind kind : optimizer::kAllStateKinds)
            for (const model::HeldParameter& held : model.parameters->held())
                if (model.optimizer != nullptr && model.optimizer->has(kind) &&
                    (kind == StateKind::master_weights || loads == Loads::all))
                    for (const optimizer::StatePart& part : model.optimizer->parts(held, kind))
                        reader->ask_for(kind == StateKind::master_weights ? master : group_of(kind),
                                        held.parameter.name, part);
        reader->read_all();
    });
    compare_sums(checkpoint, *index, reader->sums(), world);
}

} // namespace trireme::checkpoint
