// Writes and reads checkpoint.h5.
#include "index.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "names.hpp"
#include "trireme/base/build_info.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {
namespace {

constexpr const char* kCounters = "/counters";
constexpr const char* kSums = "/sums/ranges";
constexpr const char* kTensorSums = "/sums/tensors";

// FNV-1a (Fowler, Noll, Vo), 64 bits, over the fields in the order of their writing.
class Digest {
  public:
    void add(std::string_view bytes) {
        for (const char byte : bytes) {
            hash_ ^= static_cast<unsigned char>(byte);
            hash_ *= 0x100000001B3u;
        }
    }
    void add(const std::string& name, const std::string& text) { add(concat(name, "=", text, "\n")); }
    std::int64_t value() const { return static_cast<std::int64_t>(hash_); }

  private:
    std::uint64_t hash_ = 0xCBF29CE484222325u;
};

// What an index holds besides the links, in the form and the order in which it is written, read and digested.
struct Fields {
    std::vector<std::pair<std::string, std::string>> texts;
    std::vector<std::pair<std::string, std::int64_t>> integers; // counters by name
    std::vector<std::int64_t> tensor_sums, range_sums;

    std::int64_t digest() const {
        Digest digest;
        for (const auto& [name, text] : texts)
            digest.add(name, text);
        for (const auto& [name, value] : integers)
            digest.add(name, std::to_string(value));
        for (const std::vector<std::int64_t>* sums : {&tensor_sums, &range_sums})
            for (const std::int64_t sum : *sums)
                digest.add("sum", std::to_string(sum));
        return digest.value();
    }
};

// A line a tensor: name, stage, extents, separated by blanks.
std::string to_table(const std::vector<TensorEntry>& tensors) {
    std::string text;
    for (const TensorEntry& tensor : tensors) {
        text += concat(tensor.name, " ", tensor.stage);
        for (const std::int64_t extent : tensor.shape)
            text += concat(" ", extent);
        text += "\n";
    }
    return text;
}

[[noreturn]] void throw_damaged(const std::filesystem::path& checkpoint, const std::string& what) {
    throw Error(ErrorCategory::checkpoint, concat((checkpoint / kIndexFile).string(), " is damaged: ", what),
                {"try: an earlier checkpoint (--ckpt-step), or a copy of this one"});
}

// "65536 12 2": the scale in full, good steps, overflows left.
std::string to_text(const optimizer::LossScale::State& state) {
    std::array<char, 32> scale{};
    const auto end = std::to_chars(scale.data(), scale.data() + scale.size(), state.scale).ptr;
    return concat(std::string_view(scale.data(), static_cast<std::size_t>(end - scale.data())), " ",
                  state.good_steps, " ", state.overflows_left);
}
optimizer::LossScale::State loss_scale_from(const std::filesystem::path& checkpoint,
                                            const std::string& text) {
    std::istringstream fields(text);
    optimizer::LossScale::State state;
    if (!(fields >> state.scale >> state.good_steps >> state.overflows_left))
        throw_damaged(checkpoint, concat("its loss scale is '", text, "'"));
    return state;
}

// A line a group: name without slashes, type.
std::string to_lines(const std::vector<GroupEntry>& groups) {
    std::string text;
    for (const GroupEntry& group : groups)
        text += concat(group.name.substr(1, group.name.size() - 2), " ", name(group.type.value()), "\n");
    return text;
}

std::vector<TensorEntry> parse_tensors(const std::filesystem::path& checkpoint, const std::string& text) {
    std::vector<TensorEntry> tensors;
    std::istringstream table(text);
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        TensorEntry tensor;
        if (!(fields >> tensor.name >> tensor.stage) || tensor.stage < 0)
            throw_damaged(checkpoint, concat("its table of tensors has the line '", line, "'"));
        for (std::int64_t extent = 0; fields >> extent;)
            tensor.shape.push_back(extent);
        if (tensor.shape.empty() ||
            std::ranges::any_of(tensor.shape, [](std::int64_t extent) { return extent <= 0; }))
            throw_damaged(checkpoint, concat("its table of tensors has the line '", line, "'"));
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

std::optional<DType> type_named(const std::string& text) {
    constexpr int kTypes = 32; // more than there are; the rest is named "?"
    for (int i = 0; i < kTypes; ++i)
        if (text != "?" && name(static_cast<DType>(i)) == text)
            return static_cast<DType>(i);
    return std::nullopt;
}

std::vector<GroupEntry> parse_groups(const std::filesystem::path& checkpoint, const std::string& text) {
    std::vector<GroupEntry> groups;
    std::istringstream lines(text);
    for (std::string group, type; lines >> group >> type;) {
        groups.push_back({concat("/", group, "/"), type_named(type)});
        if (!groups.back().type)
            throw_damaged(checkpoint, concat("its list of groups names the type '", type, "'"));
    }
    return groups;
}

void write_vector(storage::File& file, const std::string& name, std::vector<std::int64_t> values) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
    file.create_dataset(name, shape, DType::i64);
    const storage::Part all{topology::Box::whole(shape), Tensor(std::span(values), Shape(shape))};
    file.write(name, {&all, 1});
}

std::vector<std::int64_t> read_vector(storage::File& file, const std::string& name) {
    const storage::DatasetInfo info = file.info(name);
    const topology::Box box = topology::Box::whole(info.shape);
    std::vector<std::int64_t> values(static_cast<std::size_t>(box.elements()));
    const storage::Part all{box, Tensor(std::span(values), Shape(box.extents()))};
    file.read(name, {&all, 1});
    return values;
}

// The counters that have fields of their own.
std::vector<std::pair<std::string, std::int64_t*>> known_counters(State& state) {
    return {{"iteration", &state.iteration},
            {"consumed_samples", &state.consumed_samples},
            {"scheduled_samples", &state.scheduled_samples},
            {"optimizer_steps", &state.optimizer_steps},
            {"skipped_iterations", &state.skipped_iterations},
            {"nan_iterations", &state.nan_iterations}};
}

std::vector<std::pair<std::string, std::int64_t>> to_counters(State state) {
    std::map<std::string, std::int64_t> all = state.more_counters;
    for (const auto& [name, value] : known_counters(state))
        all[name] = *value;
    all["seed"] = static_cast<std::int64_t>(state.seed);
    std::vector<std::pair<std::string, std::int64_t>> result;
    for (const auto& [name, value] : all)
        result.emplace_back(concat(kCounters, "/", name), value);
    return result;
}

void take_counters(State& state, std::map<std::string, std::int64_t> all,
                   const std::filesystem::path& checkpoint) {
    const auto take = [&](const std::string& name) {
        const auto found = all.find(name);
        if (found == all.end())
            throw_damaged(checkpoint, concat("it lacks the counter ", name));
        const std::int64_t value = found->second;
        all.erase(found);
        return value;
    };
    if (!all.contains("skipped_iterations")) // version 1 counted neither
        all["skipped_iterations"] = all["nan_iterations"] = 0;
    for (const auto& [name, value] : known_counters(state))
        *value = take(name);
    state.seed = static_cast<std::uint64_t>(take("seed"));
    state.more_counters = std::move(all);
}

// Version 1 had no list of groups.
std::vector<GroupEntry> groups_of_version_1(const storage::File& file) {
    std::vector<GroupEntry> groups{{kParameters, std::nullopt}};
    if (file.read_integer("/has_optimizer") == 0)
        return groups;
    const bool has_master = file.read_integer("/has_master_weights") != 0;
    for (const optimizer::StateKind kind : optimizer::kAllStateKinds)
        if (has_master || kind != optimizer::StateKind::master_weights)
            groups.push_back({group_of(kind), std::nullopt});
    return groups;
}

} // namespace

void write_index(const std::filesystem::path& checkpoint, const State& state, const Contents& contents,
                 const SumTable& sums) {
    Fields fields;
    fields.texts = {
        {"/program", concat("trireme ", build_info().version, " (", build_info().commit, ")")},
        {"/options", state.options},
        {"/layout", state.layout},
        {"/tensors", to_table(contents.tensors)},
        {"/groups", to_lines(contents.groups)},
        {"/rates", state.rates},
        {"/loss_scale", state.loss_scale ? to_text(*state.loss_scale) : ""},
    };
    fields.integers = to_counters(state);
    for (std::size_t slot = 0; slot < contents.slots(); ++slot)
        fields.tensor_sums.push_back(static_cast<std::int64_t>(sums.tensor_sum(slot)));
    fields.range_sums = sums.stored();

    storage::File file = storage::File::create_alone(checkpoint / kIndexFile);
    file.write_integer("/format_version", kFormatVersion);
    for (const auto& [name, text] : fields.texts)
        file.write_text(name, text);
    for (const auto& [name, value] : fields.integers)
        file.write_integer(name, value);
    write_vector(file, kTensorSums, fields.tensor_sums);
    write_vector(file, kSums, fields.range_sums);
    file.write_integer("/digest", fields.digest());
    for (std::size_t slot = 0; slot < contents.slots(); ++slot)
        file.link(contents.dataset(slot), stage_name(contents.tensor(slot).stage), contents.dataset(slot));
    file.close();
}

Index read_index(const std::filesystem::path& checkpoint) {
    storage::File file = storage::File::open_alone(checkpoint / kIndexFile);
    Index index;
    index.format_version = file.read_integer("/format_version");
    if (index.format_version > kFormatVersion)
        throw Error(ErrorCategory::checkpoint,
                    concat(checkpoint.string(), " has format version ", index.format_version,
                           ", this program reads up to ", kFormatVersion),
                    {concat("written by ", file.read_text("/program")),
                     "try: that version of trireme or a later one"});
    const bool has_sums = index.format_version >= 2;
    Fields fields;
    std::vector<std::string> texts{"/program", "/options", "/layout", "/tensors"};
    if (has_sums)
        texts.insert(texts.end(), {"/groups", "/rates", "/loss_scale"});
    for (const std::string& name : texts)
        fields.texts.emplace_back(name, file.read_text(name));
    std::map<std::string, std::int64_t> counters;
    for (const std::string& name : file.names(kCounters)) {
        fields.integers.emplace_back(concat(kCounters, "/", name),
                                     file.read_integer(concat(kCounters, "/", name)));
        counters[name] = fields.integers.back().second;
    }
    if (has_sums) {
        fields.tensor_sums = read_vector(file, kTensorSums);
        fields.range_sums = read_vector(file, kSums);
        if (fields.digest() != file.read_integer("/digest"))
            throw_damaged(checkpoint, "what it holds does not agree with its digest");
    }
    const auto text = [&](std::size_t i) { return fields.texts[i].second; };
    index.contents.tensors = parse_tensors(checkpoint, text(3));
    index.contents.groups = has_sums ? parse_groups(checkpoint, text(4)) : groups_of_version_1(file);
    State& state = index.state;
    state.program = text(0);
    state.options = text(1);
    state.layout = text(2);
    if (has_sums) {
        state.rates = text(5);
        if (!text(6).empty())
            state.loss_scale = loss_scale_from(checkpoint, text(6));
    }
    take_counters(state, std::move(counters), checkpoint);
    state.has_optimizer = index.contents.has_group(group_of(optimizer::StateKind::first_moment));
    state.has_master_weights = index.contents.has_group(group_of(optimizer::StateKind::master_weights));
    if (has_sums) {
        index.sums = index.contents.empty_sums();
        if (index.sums->stored().size() != fields.range_sums.size())
            throw_damaged(checkpoint, "its table of sums does not fit its tensors");
        index.sums->set_stored(fields.range_sums);
    }
    return index;
}

} // namespace trireme::checkpoint
