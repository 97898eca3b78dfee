// Rank 0 alone looks at the JSONL files and works, in a thread; meanwhile it tells the others every second
// that it lives, so the watchdog sees ranks that make progress however long the file is. Then every rank
// looks for the pairs, which is where a cache that is not shared shows.
#include "prepare_data.hpp"

#include <chrono>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/base/progress_line.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/data/prepare.hpp"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSignOfLife(300);
constexpr std::chrono::seconds kSharedFileSystemDelay(10); // clients may keep the old listing of a directory

struct Pair {
    std::string word, prefix;
    data::PairSizes sizes; // as the first rank sees them
};

std::vector<std::vector<std::string>*> all_paths(data::DatasetOptions& options) {
    std::vector<std::vector<std::string>*> paths = {&options.data_path};
    for (std::vector<std::string>& path : options.part_paths)
        paths.push_back(&path);
    return paths;
}

std::string pack(const std::vector<Pair>& pairs) {
    std::string text;
    for (const Pair& pair : pairs)
        text += concat(pair.word, '\0', pair.prefix, '\0', pair.sizes.bin, '\0', pair.sizes.idx, '\0');
    return text;
}

std::vector<Pair> unpack(const std::string& text) {
    std::istringstream in(text);
    std::vector<Pair> pairs;
    std::string bin, idx;
    for (Pair pair; std::getline(in, pair.word, '\0');) {
        std::getline(in, pair.prefix, '\0');
        std::getline(in, bin, '\0');
        std::getline(in, idx, '\0');
        pair.sizes = {std::stoll(bin), std::stoll(idx)};
        pairs.push_back(pair);
    }
    return pairs;
}

void write_pair(const Pair& pair, const data::Tokenizer& tokenizer, comm::HostGroup& world,
                const std::function<void(const std::string&)>& say) {
    say(concat("data      preparing ", pair.word, " for this and later runs: ", pair.prefix,
               ".bin and .idx"));
    if (const auto removed = data::remove_leftovers(pair.prefix); !removed.empty())
        say(concat("          removed ", removed.size(), " unfinished ",
                   removed.size() == 1 ? "file" : "files",
                   " of earlier preparations that were killed, the first is ", removed.front().string()));
    std::mutex mutex;
    data::PreprocessProgress progress;
    const int workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::future<data::PreprocessResult> job = std::async(std::launch::async, [&] {
        return data::prepare(pair.word, pair.prefix, tokenizer, workers,
                             [&](const data::PreprocessProgress& now) {
                                 const std::lock_guard lock(mutex);
                                 progress = now;
                             });
    });
    ProgressLine line;
    while (job.wait_for(kSignOfLife) != std::future_status::ready) {
        world.broadcast("working", 0);
        line.update([&] {
            const std::lock_guard lock(mutex);
            return data::describe(progress, line.seconds());
        });
    }
    const data::PreprocessResult result = job.get();
    say(concat("          ", result.documents, " documents, ", result.tokens, " tokens in ",
               show_duration(line.seconds())));
}

// Waits a little for a shared file system to show what another node has written.
void require_visible(const Pair& pair, const comm::Runtime& runtime) {
    const Clock::time_point give_up = Clock::now() + kSharedFileSystemDelay;
    while (data::pair_sizes(pair.prefix) != pair.sizes) {
        if (Clock::now() > give_up)
            throw Error(
                ErrorCategory::data,
                concat("the tokens of ", pair.word, " are not on host ", runtime.host(),
                       ": the cache is not shared by all nodes"),
                {concat("rank 0 on host ", runtime.hosts().front(), " has them as ", pair.prefix,
                        ".bin and .idx; rank ", runtime.rank(), " finds ",
                        data::pair_sizes(pair.prefix).complete() ? "other files" : "no such files", " there"),
                 "try: --data-cache-path DIR, a directory of a file system that all nodes see"});
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
}

} // namespace

void prepare_data(data::DatasetOptions& options, const std::string& cache_directory,
                  const data::Tokenizer& tokenizer, comm::Runtime& runtime,
                  const std::function<void(const std::string&)>& say) {
    const comm::PhaseScope phase("preparing data");
    comm::HostGroup& world = runtime.world();
    const bool first = runtime.rank() == 0;
    std::vector<Pair> pairs;
    comm::agree(world, [&] {
        if (!first)
            return;
        for (const std::vector<std::string>* path : all_paths(options))
            for (const std::string& word : *path)
                if (data::is_text_file(word))
                    pairs.push_back({word, data::prepared_prefix(word, cache_directory, tokenizer), {}});
    });
    comm::agree(world, [&] {
        // The others follow until they hear anything but a sign of life; a failure is told by agree().
        if (!first) {
            while (world.broadcast({}, 0) == "working")
                continue;
            return;
        }
        try {
            for (Pair& pair : pairs) {
                if (!data::pair_sizes(pair.prefix).complete())
                    write_pair(pair, tokenizer, world, say);
                pair.sizes = data::pair_sizes(pair.prefix);
            }
        } catch (...) {
            world.broadcast("failed", 0);
            throw;
        }
        world.broadcast("done", 0);
    });
    pairs = unpack(world.broadcast(pack(pairs), 0));
    comm::agree(world, [&] {
        for (const Pair& pair : pairs)
            require_visible(pair, runtime);
    });
    for (std::vector<std::string>* path : all_paths(options))
        for (std::string& word : *path)
            for (const Pair& pair : pairs)
                if (word == pair.word)
                    word = pair.prefix;
}

} // namespace trireme::train
