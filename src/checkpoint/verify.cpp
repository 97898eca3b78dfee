// Verification: reads range by range and compares sums.
#include "trireme/checkpoint/verify.hpp"

#include <algorithm>

#include "names.hpp"
#include "stage_reader.hpp"
#include "trireme/base/printable.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string words_of(const Error& error) {
    std::string text = error.what();
    if (!error.details().empty())
        text += concat("; ", error.details().front());
    return text;
}

class Verification {
  public:
    Verification(const fs::path& checkpoint, const Index& index, Verdict& verdict)
        : index_(index), reader_(checkpoint, index), verdict_(verdict) {}

    void check_tensor(std::size_t slot) {
        const TensorEntry& tensor = index_.contents.tensor(slot);
        const std::string where = concat(stage_name(tensor.stage), " ", index_.contents.dataset(slot));
        const auto failure = comm::attempt(*alone_, [&] {
            const std::int64_t size = size_bytes(reader_.type(slot));
            const std::int64_t elements = topology::Box::whole(tensor.shape).elements();
            for (std::int64_t begin = 0; begin < elements; begin += kRangeElements)
                for (const topology::Box& box : topology::boxes_of_flat_range(
                         tensor.shape, {begin, std::min(elements, begin + kRangeElements)})) {
                    buffer_.resize(static_cast<std::size_t>(box.elements() * size));
                    reader_.read(slot, box, buffer_);
                }
            ++verdict_.tensors;
            verdict_.bytes += elements * size;
        });
        if (failure) {
            verdict_.findings.push_back({where, 0, 0, words_of(*failure)});
            unreadable_.push_back(slot);
        }
    }

    // Loading does not use the index's links; other programs find the tensors by them.
    void check_links(const fs::path& checkpoint) {
        const storage::File file = storage::File::open_alone(checkpoint / kIndexFile);
        for (std::size_t slot = 0; slot < index_.contents.slots(); ++slot) {
            const std::string name = index_.contents.dataset(slot);
            const storage::File::LinkTarget wanted{stage_name(index_.contents.tensor(slot).stage), name};
            const auto failure = comm::attempt(*alone_, [&] {
                const storage::File::LinkTarget found = file.link_target(name);
                if (found != wanted)
                    verdict_.findings.push_back(
                        {concat(kIndexFile, " ", name), 0, 0,
                         concat("it points to ", printable(concat(found.file, ":", found.name)), ", not to ",
                                wanted.file, ":", wanted.name)});
            });
            if (failure)
                verdict_.findings.push_back({concat(kIndexFile, " ", name), 0, 0, words_of(*failure)});
        }
    }

    void compare() {
        if (!index_.sums)
            return;
        for (const Difference& difference : differences(reader_.sums(), *index_.sums))
            if (std::ranges::find(unreadable_, difference.slot) == unreadable_.end())
                verdict_.findings.push_back({concat(stage_name(index_.contents.tensor(difference.slot).stage),
                                                    " ", index_.contents.dataset(difference.slot)),
                                             difference.range.begin, difference.range.end, difference.what});
    }

  private:
    std::unique_ptr<comm::HostGroup> alone_ = comm::make_self_host_group();
    const Index& index_;
    StageReader reader_;
    Verdict& verdict_;
    std::vector<std::byte> buffer_;
    std::vector<std::size_t> unreadable_;
};

} // namespace

std::string Finding::text() const {
    if (first_element == end_element)
        return concat(where, ": ", what);
    return concat(where, " elements ", first_element, " to ", end_element - 1, ": ", what);
}

Verdict verify(const fs::path& checkpoint) {
    Verdict verdict;
    verdict.checkpoint = checkpoint;
    Index index;
    if (const auto failure =
            comm::attempt(*comm::make_self_host_group(), [&] { index = read_index(checkpoint); })) {
        verdict.findings.push_back({kIndexFile, 0, 0, words_of(*failure)});
        return verdict;
    }
    verdict.format_version = index.format_version;
    verdict.iteration = index.state.iteration;
    verdict.has_sums = index.sums.has_value();
    if (const auto named = iteration_of(checkpoint); named && *named != index.state.iteration)
        verdict.findings.push_back(
            {kIndexFile, 0, 0,
             concat("it is of iteration ", index.state.iteration, ", the directory's name says ", *named)});
    Verification verification(checkpoint, index, verdict);
    for (std::size_t slot = 0; slot < index.contents.slots(); ++slot)
        verification.check_tensor(slot);
    verification.check_links(checkpoint);
    verification.compare();
    return verdict;
}

std::vector<fs::path> checkpoints_in(const fs::path& directory) {
    std::vector<fs::path> found;
    std::error_code failure;
    fs::directory_iterator entry(directory, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
        if (iteration_of(entry->path()) || entry->path().filename() == kReleaseDirectory)
            found.push_back(entry->path());
    if (failure)
        throw Error(ErrorCategory::checkpoint,
                    concat("cannot look into ", directory.string(), ": ", failure.message()),
                    {"try: a directory that --save has named, or a checkpoint in it"});
    std::ranges::sort(found, {}, [](const fs::path& path) { return iteration_of(path).value_or(-1); });
    return found;
}

} // namespace trireme::checkpoint
