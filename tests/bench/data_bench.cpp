// The data layer's speed: a loader's tokens a second, start-up with small and large indices, and the cost of
// long words. Files lie in the system's temporary directory, most of them holes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <unistd.h>

#include "trireme/base/error.hpp"
#include "trireme/base/output_file.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/data/loader.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

class Scratch {
  public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "trireme_bench_XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr)
            throw Error(ErrorCategory::output, concat("cannot create ", name));
        path_ = name;
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string prefix(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

// Memory of this process that is no mapping of a file, in MiB.
double private_mebibytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("RssAnon:"))
            return std::atof(line.c_str() + 8) / 1024;
    return -1;
}

void loader_speed(const Scratch& scratch) {
    constexpr std::int64_t kTokens = 64'000'000, kLength = 2048;
    {
        IndexedDatasetWriter writer(scratch.prefix("loader"), TokenType::u16);
        std::mt19937 random(1);
        std::vector<std::int32_t> ids(1000);
        for (std::int64_t document = 0; document < kTokens / 1000; ++document) {
            for (std::int32_t& id : ids)
                id = static_cast<std::int32_t>(random() % 50257);
            writer.add_document(ids);
        }
        writer.finish();
    }
    const Dataset dataset({{scratch.prefix("loader")}, "1", kLength, 1, 50257, {}});
    LoaderOptions options;
    options.micro_batch = 4;
    options.sequence_length = kLength;
    options.num_workers = 0; // the reading itself, on one core
    Loader loader(
        [&](std::int64_t sample, std::span<std::int32_t> row) { dataset.read(Split::train, sample, row); },
        options);
    const Clock::time_point start = Clock::now();
    std::int64_t tokens = 0, sum = 0;
    while (seconds_since(start) < 2) {
        sum += loader.next()[0];
        tokens += options.micro_batch * kLength;
    }
    std::cout << "loader: " << static_cast<double>(tokens) / seconds_since(start) / 1e6
              << " million tokens/s on one core (goal 1; check " << sum % 10 << ")\n";
}

// A corpus of 2^40 tokens (2 TB), its .bin a hole, its .idx real.
void write_corpus(const std::string& prefix, std::int64_t documents) {
    constexpr std::int64_t kTokens = std::int64_t{1} << 40;
    const std::int64_t length = kTokens / documents;
    OutputFile idx(prefix + ".idx");
    idx.write(std::string_view("MMIDIDX\0\0", 9));
    idx.write_value(std::uint64_t{1});
    idx.write_value(std::uint8_t{8});
    idx.write_value(static_cast<std::uint64_t>(documents));
    idx.write_value(static_cast<std::uint64_t>(documents) + 1);
    for (std::int64_t document = 0; document < documents; ++document)
        idx.write_value(static_cast<std::int32_t>(length));
    for (std::int64_t document = 0; document < documents; ++document)
        idx.write_value(2 * length * document);
    for (std::int64_t document = 0; document <= documents; ++document)
        idx.write_value(document);
    idx.sync();
    idx.publish();
    std::ofstream(prefix + ".bin", std::ios::binary).flush();
    std::filesystem::resize_file(prefix + ".bin", static_cast<std::uintmax_t>(2 * length * documents));
}

// The shortest of several openings, the first sample of each part included: the machine may be busy.
double start_up_seconds(const std::string& prefix) {
    double best = 1e9;
    std::vector<std::int32_t> sample(4097);
    for (int round = 0; round < 20; ++round) {
        const Clock::time_point start = Clock::now();
        const Dataset dataset({{prefix}, "969,30,1", 4096, 1, 50257, {}});
        for (const Split split : kSplits)
            dataset.read(split, 0, sample);
        best = std::min(best, seconds_since(start));
    }
    return best;
}

void start_up(const Scratch& scratch) {
    const std::string small = scratch.prefix("small"), large = scratch.prefix("large");
    write_corpus(small, 5'000'000);
    write_corpus(large, 50'000'000);
    const double before = private_mebibytes();
    const double few = start_up_seconds(small), many = start_up_seconds(large);
    std::cout << "start-up on 2 TB: " << few * 1e3 << " ms with 5 million documents, " << many * 1e3
              << " ms with 50 million, ratio " << many / few << " (at most 1.2); memory beyond the mapping "
              << private_mebibytes() - before << " MiB (at most 64)\n";
}

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text) {
    const auto scratch = tokenizer.make_scratch();
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    const Clock::time_point start = Clock::now();
    tokenizer.encode(text, *scratch, ids);
    return seconds_since(start);
}

void long_words() {
    const auto tokenizer = load_gpt2_bpe("tests/data/gpt2/vocab.json", "tests/data/gpt2/merges.txt");
    constexpr std::size_t kBytes = 10'000'000;
    std::string text;
    for (std::size_t line = 0; text.size() < kBytes; ++line)
        text +=
            concat("The ", line,
                   "th line of some text, which is not much like any other; numbers: ", line * 7919, ".\n");
    const double per_byte = seconds_to_encode(*tokenizer, text) / static_cast<double>(text.size());
    std::cout << "text: " << 1e-6 / per_byte << " MB/s\n";
    std::mt19937 random(3);
    const auto word = [&](const char* kind, std::size_t bytes) {
        std::string letters(bytes, 'a');
        for (std::size_t at = 0; at < bytes; ++at)
            letters[at] =
                kind[0] == 'r' ? static_cast<char>('a' + random() % 26) : kind[at % std::strlen(kind)];
        return letters;
    };
    for (const char* kind : {"a", "ab", "abc", "random letters"}) {
        const double once = seconds_to_encode(*tokenizer, word(kind, kBytes));
        const double twice = seconds_to_encode(*tokenizer, word(kind, 2 * kBytes));
        std::cout << "one word of 10 MB, " << kind << ": " << once << " s, 20 MB " << twice / once
                  << " times that (at most 2.3), " << once / static_cast<double>(kBytes) / per_byte
                  << " times text a byte (at most 10)\n";
    }
}

} // namespace
} // namespace trireme::data

int main() {
    try {
        const trireme::data::Scratch scratch;
        trireme::data::loader_speed(scratch);
        trireme::data::long_words();
        trireme::data::start_up(scratch);
    } catch (const trireme::Error& error) {
        std::cerr << error.message();
        return error.exit_code();
    }
}
