// Dataset: which tokens a sample holds. The tokens of a part are one range of the file, since documents are
// contiguous.
#include "trireme/data/dataset.hpp"

#include <algorithm>

#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

const DatasetOptions& checked(const DatasetOptions& options) {
    TRIREME_ASSERT(options.sequence_length > 0 && options.vocab_size > 0, "sequence length ",
                   options.sequence_length, ", vocabulary ", options.vocab_size);
    if (options.data_path.empty())
        throw Error(ErrorCategory::usage, "--data-path is missing: the prefix of a .bin/.idx pair is needed");
    if (options.data_path.size() > 1) {
        std::string given;
        for (const std::string& word : options.data_path)
            given += (given.empty() ? "" : " ") + word;
        throw Error(ErrorCategory::usage, "several data sets in --data-path (a blend) are not supported yet",
                    {concat("--data-path ", given),
                     "try: one prefix, made from all inputs by one trireme-data preprocess"});
    }
    return options;
}

} // namespace

Dataset::Dataset(const DatasetOptions& options)
    : options_(checked(options)), file_(options.data_path.front()) {
    const std::array<double, 3> shares = parse_split(options.split);
    if (file_.documents() == 0 || file_.tokens() == 0)
        throw Error(ErrorCategory::data,
                    concat(file_.prefix(), " is empty: ", file_.documents(), " documents, ", file_.tokens(),
                           " tokens"),
                    {"try: another --data-path, or trireme-data preprocess with more text"});
    const std::array<std::int64_t, 4> bounds = split_documents(shares, file_.documents());
    for (const Split split : kSplits) {
        const std::size_t index = static_cast<std::size_t>(split);
        Part& part = parts_[index];
        part.share = shares[index];
        part.documents = bounds[index + 1] - bounds[index];
        part.begin = file_.document_begin(bounds[index]);
        part.tokens = file_.document_begin(bounds[index + 1]) - part.begin;
        if (part.tokens < 0)
            throw Error(ErrorCategory::data, concat(file_.prefix(), ".idx: document ", bounds[index + 1],
                                                    " begins before document ", bounds[index]));
        if (part.tokens > options_.sequence_length)
            part.order = std::make_unique<SampleOrder>(part.tokens, options_.sequence_length, options_.seed,
                                                       static_cast<std::uint32_t>(index));
    }
}

std::string Dataset::describe(Split split) const {
    return concat(file_.prefix(), " (", name_of(split), ")");
}

bool Dataset::has(Split split) const {
    return parts_[static_cast<std::size_t>(split)].share > 0;
}

const Dataset::Part& Dataset::usable_part(Split split) const {
    const Part& part = parts_[static_cast<std::size_t>(split)];
    if (part.order)
        return part;
    const std::string from = concat("--split ", options_.split, " gives it ", part.documents, " of ",
                                    file_.documents(), " documents");
    if (part.documents == 0)
        throw Error(ErrorCategory::data, concat(describe(split), " has no documents"),
                    {from, "try: a larger share for it in --split, or more documents"});
    throw Error(ErrorCategory::data,
                concat(describe(split), " has ", part.tokens, " tokens: one sample takes ",
                       options_.sequence_length + 1, ", sequence length ", options_.sequence_length,
                       " and one"),
                {from, "try: a smaller --seq-length, a larger share for it in --split, or more text"});
}

SplitInfo Dataset::info(Split split) const {
    const Part& part = usable_part(split);
    return {part.documents, part.tokens, part.order->samples_per_epoch()};
}

void Dataset::read(Split split, std::int64_t sample, std::span<std::int32_t> tokens) const {
    TRIREME_ASSERT(static_cast<std::int64_t>(tokens.size()) == options_.sequence_length + 1, "room for ",
                   tokens.size(), " tokens");
    const Part& part = usable_part(split);
    const std::int64_t begin = part.order->begin(sample);
    const auto before_end =
        static_cast<std::size_t>(std::min<std::int64_t>(options_.sequence_length + 1, part.tokens - begin));
    file_.read(part.begin + begin, tokens.first(before_end));
    file_.read(part.begin, tokens.subspan(before_end)); // the ring goes on at its first token
    check_ids(part.begin + begin, tokens.first(before_end));
    check_ids(part.begin, tokens.subspan(before_end));
}

void Dataset::check_ids(std::int64_t position, std::span<const std::int32_t> ids) const {
    const auto outside = [&](std::int32_t id) { return id < 0 || id >= options_.vocab_size; };
    bool any = false;
    for (const std::int32_t id : ids)
        any |= outside(id);
    if (!any)
        return;
    const auto found = std::find_if(ids.begin(), ids.end(), outside);
    const std::int64_t at = position + (found - ids.begin());
    const std::int64_t document = file_.document_at(at);
    throw Error(ErrorCategory::data,
                concat("token id ", *found, " in ", file_.prefix(), ".bin is outside the vocabulary of ",
                       options_.vocab_size, " tokens"),
                {concat("document ", document, ", its token ", at - file_.document_begin(document),
                        " (token ", at, " of the file)"),
                 "try: the --vocab-file and --merge-file that the data were prepared with"});
}

} // namespace trireme::data
