// The samples of a run: indexed token files, or blends of them, as train, valid and test, each in its own
// order. Nothing is built from the files or stored at start, and any rank can read any sample of any split.
//
// Either one list of paths is split by documents, each file by the same shares, or each part has a list of
// its own. The order of a file depends on the seed, the part and its place in the list.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/blend.hpp"
#include "trireme/data/indexed_dataset.hpp"
#include "trireme/data/sample_order.hpp"

namespace trireme::data {

enum class Split { train = 0, valid = 1, test = 2 };
inline constexpr std::array<Split, 3> kSplits = {Split::train, Split::valid, Split::test};
const char* name_of(Split split);

// "969,30,1" as shares of train, valid and test that sum to 1; one to three numbers separated by commas,
// those not named are 0. Throws Error (usage) that quotes what it cannot read.
std::array<double, 3> parse_split(std::string_view text);

// The first document of each part and the end of the last: cumulative share x documents, rounded to the
// nearest.
std::array<std::int64_t, 4> split_documents(const std::array<double, 3>& shares, std::int64_t documents);

struct DatasetOptions {
    std::vector<std::string> data_path; // words of parse_blend(); a prefix stands for prefix.bin and .idx
    std::string split = "969,30,1";
    std::int64_t sequence_length = 0;
    std::uint64_t seed = 0;
    std::int64_t vocab_size = 0; // ids must lie in [0, vocab_size)
    // For train, valid and test: whole files instead of data_path and split, where any of them is not empty.
    std::array<std::vector<std::string>, 3> part_paths = {};
};

struct MemberInfo {
    std::string prefix;
    std::int64_t units = Blend::kUnits; // its share of the samples drawn, in units of 2^-20
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t samples_per_epoch = 0;
};

// Sums over the members, and these.
struct SplitInfo {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t samples_per_epoch = 0;
    std::vector<MemberInfo> members;
};

// Any number of threads may read.
class Dataset {
  public:
    // Throws Error (usage or data).
    explicit Dataset(const DatasetOptions& options);

    // Whether --split gives this part a share, or it has a path of its own. A part that has, but with too few
    // documents, is an error of info and read.
    bool has(Split split) const;
    // Throws Error (data) that names the part when it has no documents or no more than sequence_length
    // tokens.
    SplitInfo info(Split split) const;
    // tokens: [sequence_length + 1], the inputs and, shifted by one, the labels. Samples count from 0 over
    // all epochs. Throws Error (data) naming document and position of an id outside the vocabulary.
    void read(Split split, std::int64_t sample, std::span<std::int32_t> tokens) const;

    // The file that the sample is read from.
    const std::string& prefix_of(Split split, std::int64_t sample) const;

    std::int64_t sequence_length() const { return options_.sequence_length; }

  private:
    struct Member {
        const IndexedDataset* file = nullptr;
        double weight = 0; // 0: none was given
        std::int64_t documents = 0;
        std::int64_t begin = 0;             // in the stream of all tokens of the file
        std::int64_t tokens = 0;            // of this part
        std::unique_ptr<SampleOrder> order; // null: too few tokens
    };
    struct Part {
        bool wanted = false;
        std::vector<Member> members;
        std::unique_ptr<Blend> blend; // null: one member, or one with too few tokens
    };
    void add_member(Split split, const BlendWord& word, std::size_t number, std::int64_t first_document,
                    std::int64_t end_document);
    const IndexedDataset& open(const std::string& prefix);
    const Part& usable_part(Split split) const;
    void check_ids(const IndexedDataset& file, std::int64_t position,
                   std::span<const std::int32_t> ids) const;

    DatasetOptions options_;
    std::map<std::string, IndexedDataset> files_;
    std::array<Part, 3> parts_;
};

} // namespace trireme::data
