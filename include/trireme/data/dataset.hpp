// The samples of a run: indexed token files, split by documents into train, valid and test, each in its own
// order. Nothing is built or stored at start, and any rank can read any sample of any split.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
    std::vector<std::string> data_path; // a prefix: data_path.bin and data_path.idx
    std::string split = "969,30,1";
    std::int64_t sequence_length = 0;
    std::uint64_t seed = 0;
    std::int64_t vocab_size = 0; // ids must lie in [0, vocab_size)
};

struct SplitInfo {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t samples_per_epoch = 0;
};

// Any number of threads may read.
class Dataset {
  public:
    // Throws Error (usage or data).
    explicit Dataset(const DatasetOptions& options);

    // Whether --split gives this part a share. A part with a share but too few documents is an error of info
    // and read.
    bool has(Split split) const;
    // Throws Error (data) that names the part when it has no documents or no more than sequence_length
    // tokens.
    SplitInfo info(Split split) const;
    // tokens: [sequence_length + 1], the inputs and, shifted by one, the labels. Samples count from 0 over
    // all epochs. Throws Error (data) naming document and position of an id outside the vocabulary.
    void read(Split split, std::int64_t sample, std::span<std::int32_t> tokens) const;

    std::int64_t sequence_length() const { return options_.sequence_length; }
    // "PREFIX (train)": what messages call a part.
    std::string describe(Split split) const;

  private:
    struct Part {
        double share = 0;
        std::int64_t documents = 0;
        std::int64_t begin = 0;  // in the stream of all tokens
        std::int64_t tokens = 0; // of this part
        std::unique_ptr<SampleOrder> order;
    };
    const Part& usable_part(Split split) const;
    void check_ids(std::int64_t position, std::span<const std::int32_t> ids) const;

    DatasetOptions options_;
    IndexedDataset file_;
    std::array<Part, 3> parts_;
};

} // namespace trireme::data
