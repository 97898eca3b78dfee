// Checkpoints against plain files of the same bytes on the same file system, by turns in one run, the best of
// each: a save (with and without reading it again) against each rank writing its share into a file of its own
// with fsync (and against each writing and then reading its file again, which is a verified save's work), a
// load with its sums against reading these files, and the step after the start of a background save against a
// step without. All write new files; files are dropped from the page cache before they are read. One JSON
// object of seconds, and of processor seconds of the first rank, on standard output. usage: mpirun -np N
// checkpoint DIRECTORY [LAYERS HIDDEN TURNS]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unistd.h>

#include "support/tiny_model.hpp"
#include "trireme/checkpoint/background.hpp"
#include "trireme/checkpoint/checkpoint.hpp"

namespace {

using namespace trireme;
namespace fs = std::filesystem;

class Bench {
  public:
    Bench(comm::Runtime& runtime, fs::path directory, std::int64_t layers, std::int64_t hidden)
        : runtime_(runtime), directory_(std::move(directory)), backend_(backend::make_cpu_backend(1)),
          engine_(setup(runtime, layers, hidden),
                  comm::ProcessGroups(runtime, setup(runtime, layers, hidden).grid, *backend_), *backend_),
          batches_(engine_.setup(), engine_.groups().at.data), model_{&engine_.parameters(),
                                                                      &engine_.optimizer(), backend_.get(),
                                                                      &engine_.groups()},
          bytes_(checkpoint::bytes_to_save(model_)), memory_(static_cast<std::size_t>(bytes_), std::byte{1}),
          background_(bytes_) {
        engine_.initialise_weights();
    }

    void turn() {
        checkpoint::SaveOptions unread;
        unread.read_back = checkpoint::ReadBack::no;
        remove(plain());
        time(kPlainWriteRead, [&] {
            write_plain();
            forget(plain());
            read_plain();
        });
        remove(plain());
        time(kPlainWrite, [&] { write_plain(); });
        remove_checkpoint();
        time(kSaveUnread, [&] { saved_ = checkpoint::save(directory_, state_, model_, unread); });
        remove_checkpoint();
        time(kSave, [&] { saved_ = checkpoint::save(directory_, state_, model_); });
        forget(plain());
        time(kPlainRead, [&] { read_plain(); });
        for (const auto& entry : fs::directory_iterator(saved_))
            forget(entry.path());
        time(kLoad, [&] { checkpoint::load(saved_, model_); });
        time(kStep, [&] { step(); });
        remove_checkpoint();
        time(kPause, [&] { background_.start(directory_, state_, model_, {}); });
        time(kStepWhileSaving, [&] { step(); });
        background_.finish();
    }

    void print() {
        std::vector<double> total{static_cast<double>(bytes_)};
        runtime_.world().all_reduce(total, comm::ReduceOp::sum);
        if (runtime_.rank() != 0)
            return;
        const double megabytes = total[0] / 1e6;
        std::cout << "{\"ranks\": " << runtime_.ranks() << ", \"megabytes\": " << megabytes;
        for (std::size_t i = 0; i < kNames.size(); ++i)
            std::cout << ", \"" << kNames[i] << "\": " << best_[i].seconds << ", \"" << kNames[i]
                      << "_processor\": " << best_[i].processor_seconds;
        std::cout << "}" << std::endl;
    }

  private:
    static train::EngineSetup setup(const comm::Runtime& runtime, std::int64_t layers, std::int64_t hidden) {
        train::EngineSetup setup;
        setup.model.layers = layers;
        setup.model.hidden = hidden;
        setup.model.heads = setup.model.groups = hidden / 64;
        setup.model.head_dim = 64;
        setup.model.ffn = 4 * hidden;
        setup.model.vocabulary = 8192;
        setup.model.max_positions = setup.model.sequence = 128;
        setup.model.hidden_dropout = setup.model.attention_dropout = 0;
        setup.grid = {1, runtime.ranks(), 1};
        setup.global_batch = 2 * runtime.ranks();
        return setup;
    }
    enum What : std::size_t {
        kPlainWriteRead,
        kPlainWrite,
        kSaveUnread,
        kSave,
        kPlainRead,
        kLoad,
        kStep,
        kPause,
        kStepWhileSaving
    };
    static constexpr std::array<const char*, 9> kNames{
        "plain_write_read", "plain_write", "save_unread", "save", "plain_read", "load", "step", "pause",
        "step_while_saving"};
    struct Best {
        double seconds = 1e9;           // from the first rank's start to the last one's end
        double processor_seconds = 1e9; // of this rank, all its threads
    };
    fs::path plain() const { return directory_ / concat("plain.", runtime_.rank()); }

    template <class Work>
    void time(What what, Work work) {
        runtime_.world().barrier();
        const auto start = std::chrono::steady_clock::now();
        const double processor = processor_seconds();
        work();
        best_[what].processor_seconds =
            std::min(best_[what].processor_seconds, processor_seconds() - processor);
        runtime_.world().barrier();
        best_[what].seconds =
            std::min(best_[what].seconds,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    static double processor_seconds() {
        timespec time{};
        static_cast<void>(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    }
    // Both sides write new files: what the deletion of old ones costs is timed on neither.
    static void remove(const fs::path& path) { fs::remove_all(path); }
    void remove_checkpoint() {
        runtime_.world().barrier();
        if (runtime_.rank() == 0 && !saved_.empty())
            remove(saved_);
    }
    void write_plain() {
        const int file = ::open(plain().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        for (std::size_t at = 0; at < memory_.size();) {
            const ssize_t done = ::write(file, memory_.data() + at, memory_.size() - at);
            if (done <= 0)
                std::abort();
            at += static_cast<std::size_t>(done);
        }
        if (::fsync(file) != 0)
            std::abort();
        ::close(file);
    }
    void read_plain() {
        std::ifstream file(plain(), std::ios::binary);
        if (!file.read(reinterpret_cast<char*>(memory_.data()), static_cast<std::streamsize>(memory_.size())))
            std::abort();
    }
    static void forget(const fs::path& path) {
        const int file = ::open(path.c_str(), O_RDONLY);
        static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
        ::close(file);
    }
    void step() {
        batches_.start_step(0);
        engine_.train_step(batches_, 1e-5);
    }

    comm::Runtime& runtime_;
    fs::path directory_, saved_;
    std::unique_ptr<backend::Backend> backend_;
    train::Engine engine_;
    test::SyntheticBatches batches_;
    checkpoint::Model model_;
    checkpoint::State state_;
    std::int64_t bytes_;
    std::vector<std::byte> memory_;
    checkpoint::BackgroundSave background_;
    std::array<Best, kNames.size()> best_;
};

} // namespace

int main(int argc, char** argv) {
    comm::Runtime runtime(argc, argv);
    if (argc < 2)
        return 2;
    const auto number = [&](int i, std::int64_t otherwise) {
        return argc > i ? std::atoll(argv[i]) : otherwise;
    };
    Bench bench(runtime, argv[1], number(2, 12), number(3, 768));
    for (std::int64_t turn = 0; turn < number(4, 5); ++turn)
        bench.turn();
    bench.print();
}
