// Dataset: which tokens a sample holds. The tokens of a part are one range of each file, since documents are
// contiguous.
#include "trireme/data/dataset.hpp"

#include <algorithm>

#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

constexpr std::array<const char*, 3> kPathOptions = {"--train-data-path", "--valid-data-path",
                                                     "--test-data-path"};

// The k-th file of a part has a stream of random numbers of its own; a file alone has the stream of its part.
std::uint32_t stream_of(std::size_t part, std::size_t number) {
    return static_cast<std::uint32_t>(part + 4 * number);
}

} // namespace

Dataset::Dataset(const DatasetOptions& options) : options_(options) {
    TRIREME_ASSERT(options.sequence_length > 0 && options.vocab_size > 0, "sequence length ",
                   options.sequence_length, ", vocabulary ", options.vocab_size);
    const bool by_part =
        std::ranges::any_of(options_.part_paths, [](const auto& path) { return !path.empty(); });
    if (by_part) {
        for (const Split split : kSplits) {
            const auto index = static_cast<std::size_t>(split);
            if (options_.part_paths[index].empty())
                continue;
            parts_[index].wanted = true;
            std::size_t number = 0;
            for (const BlendWord& word : parse_blend(options_.part_paths[index], kPathOptions[index]))
                add_member(split, word, number++, 0, open(word.prefix).documents());
        }
    } else {
        const std::array<double, 3> shares = parse_split(options_.split);
        std::size_t number = 0;
        for (const BlendWord& word : parse_blend(options_.data_path, "--data-path")) {
            const std::array<std::int64_t, 4> bounds = split_documents(shares, open(word.prefix).documents());
            for (const Split split : kSplits) {
                const auto index = static_cast<std::size_t>(split);
                parts_[index].wanted = shares[index] > 0;
                add_member(split, word, number, bounds[index], bounds[index + 1]);
            }
            ++number;
        }
    }
    for (Part& part : parts_) {
        std::vector<double> weights;
        for (const Member& member : part.members)
            if (member.order) // without weights one epoch of the blend is one of each member
                weights.push_back(member.weight > 0 ? member.weight
                                                    : static_cast<double>(member.order->samples_per_epoch()));
        if (weights.size() > 1 && weights.size() == part.members.size())
            part.blend = std::make_unique<Blend>(weights);
    }
}

const IndexedDataset& Dataset::open(const std::string& prefix) {
    const auto found = files_.find(prefix);
    if (found != files_.end())
        return found->second;
    const IndexedDataset& file = files_.emplace(prefix, IndexedDataset(prefix)).first->second;
    if (file.documents() == 0 || file.tokens() == 0)
        throw Error(ErrorCategory::data,
                    concat(prefix, " is empty: ", file.documents(), " documents, ", file.tokens(), " tokens"),
                    {"try: another --data-path, or trireme-data preprocess with more text"});
    file.random_access();
    return file;
}

void Dataset::add_member(Split split, const BlendWord& word, std::size_t number, std::int64_t first_document,
                         std::int64_t end_document) {
    const IndexedDataset& file = open(word.prefix);
    Member member;
    member.file = &file;
    member.weight = word.weight;
    member.documents = end_document - first_document;
    member.begin = file.document_begin(first_document);
    member.tokens = file.document_begin(end_document) - member.begin;
    if (member.tokens < 0)
        throw Error(ErrorCategory::data, concat(file.prefix(), ".idx: document ", end_document,
                                                " begins before document ", first_document));
    const auto part = static_cast<std::size_t>(split);
    if (member.tokens > options_.sequence_length)
        member.order = std::make_unique<SampleOrder>(member.tokens, options_.sequence_length, options_.seed,
                                                     stream_of(part, number));
    parts_[part].members.push_back(std::move(member));
}

bool Dataset::has(Split split) const {
    return parts_[static_cast<std::size_t>(split)].wanted;
}

const Dataset::Part& Dataset::usable_part(Split split) const {
    const auto index = static_cast<std::size_t>(split);
    const Part& part = parts_[index];
    if (part.blend || (part.members.size() == 1 && part.members.front().order))
        return part;
    TRIREME_ASSERT(!part.members.empty(), "part ", name_of(split), " has no path");
    for (const Member& member : part.members) {
        if (member.order)
            continue;
        const std::string name = concat(member.file->prefix(), " (", name_of(split), ")");
        const bool whole = !options_.part_paths[index].empty();
        const std::string from = whole ? concat("all documents of a file in ", kPathOptions[index])
                                       : concat("--split ", options_.split, " gives it ", member.documents,
                                                " of ", member.file->documents(), " documents");
        const std::string share = whole ? "" : "a larger share for it in --split, ";
        if (member.documents == 0)
            throw Error(ErrorCategory::data, concat(name, " has no documents"),
                        {from, concat("try: ", share, "or more documents")});
        throw Error(ErrorCategory::data,
                    concat(name, " has ", member.tokens, " tokens: one sample takes ",
                           options_.sequence_length + 1, ", sequence length ", options_.sequence_length,
                           " and one"),
                    {from, concat("try: a smaller --seq-length, ", share, "or more text")});
    }
    return part;
}

SplitInfo Dataset::info(Split split) const {
    const Part& part = usable_part(split);
    SplitInfo info;
    for (std::size_t number = 0; number < part.members.size(); ++number) {
        const Member& member = part.members[number];
        info.members.push_back({member.file->prefix(),
                                part.blend ? part.blend->units()[number] : Blend::kUnits, member.documents,
                                member.tokens, member.order->samples_per_epoch()});
        info.documents += member.documents;
        info.tokens += member.tokens;
        info.samples_per_epoch += member.order->samples_per_epoch();
    }
    return info;
}

const std::string& Dataset::prefix_of(Split split, std::int64_t sample) const {
    const Part& part = usable_part(split);
    return part.members[part.blend ? part.blend->turn(sample).member : 0].file->prefix();
}

void Dataset::read(Split split, std::int64_t sample, std::span<std::int32_t> tokens) const {
    TRIREME_ASSERT(static_cast<std::int64_t>(tokens.size()) == options_.sequence_length + 1, "room for ",
                   tokens.size(), " tokens");
    const Part& part = usable_part(split);
    const Blend::Turn turn = part.blend ? part.blend->turn(sample) : Blend::Turn{0, sample};
    const Member& member = part.members[turn.member];
    const IndexedDataset& file = *member.file;
    const std::int64_t begin = member.order->begin(turn.sample);
    const std::int64_t before_end = std::min(options_.sequence_length + 1, member.tokens - begin);
    const std::span<std::int32_t> first = tokens.first(static_cast<std::size_t>(before_end));
    const std::span<std::int32_t> rest = tokens.subspan(static_cast<std::size_t>(before_end));
    file.fetch(member.begin + begin, before_end);
    file.read(member.begin + begin, first);
    file.read(member.begin, rest); // the ring goes on at its first token
    check_ids(file, member.begin + begin, first);
    check_ids(file, member.begin, rest);
}

void Dataset::check_ids(const IndexedDataset& file, std::int64_t position,
                        std::span<const std::int32_t> ids) const {
    const auto outside = [&](std::int32_t id) { return id < 0 || id >= options_.vocab_size; };
    bool any = false;
    for (const std::int32_t id : ids)
        any |= outside(id);
    if (!any)
        return;
    const auto found = std::find_if(ids.begin(), ids.end(), outside);
    const std::int64_t at = position + (found - ids.begin());
    const std::int64_t document = file.document_at(at);
    throw Error(ErrorCategory::data,
                concat("token id ", *found, " in ", file.prefix(), ".bin is outside the vocabulary of ",
                       options_.vocab_size, " tokens"),
                {concat("document ", document, ", its token ", at - file.document_begin(document), " (token ",
                        at, " of the file)"),
                 "try: the tokenizer that the data were prepared with"});
}

} // namespace trireme::data
