// Checkpoints against plain files of the same bytes on the same file system, by turns in one run, the best of
// each: a save (with and without reading it again) against each rank writing its share into a file of its own
// with fsync, a load with its sums against reading these files, and the step after the start of a background
// save against a step without. Files are dropped from the page cache before they are read. One JSON object on
// standard output. usage: mpirun -np N checkpoint DIRECTORY [LAYERS HIDDEN TURNS]
#include <algorithm>
#include <chrono>
#include <cstdlib>
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
        best_[0] = std::min(best_[0], timed([&] { write_plain(); }));
        best_[1] = std::min(best_[1], timed([&] { checkpoint::save(directory_, state_, model_, unread); }));
        best_[2] = std::min(best_[2], timed([&] { saved_ = checkpoint::save(directory_, state_, model_); }));
        forget(plain());
        best_[3] = std::min(best_[3], timed([&] { read_plain(); }));
        for (const auto& entry : fs::directory_iterator(saved_))
            forget(entry.path());
        best_[4] = std::min(best_[4], timed([&] { checkpoint::load(saved_, model_); }));
        best_[5] = std::min(best_[5], timed([&] { step(); }));
        best_[6] = std::min(best_[6], timed([&] { background_.start(directory_, state_, model_, unread); }));
        best_[7] = std::min(best_[7], timed([&] { step(); }));
        background_.finish();
    }

    void print() {
        std::vector<double> total{static_cast<double>(bytes_)};
        runtime_.world().all_reduce(total, comm::ReduceOp::sum);
        if (runtime_.rank() != 0)
            return;
        const double megabytes = total[0] / 1e6;
        std::cout << "{\"ranks\": " << runtime_.ranks() << ", \"megabytes\": " << megabytes
                  << ", \"plain_write\": " << megabytes / best_[0] << ", \"save\": " << megabytes / best_[1]
                  << ", \"save_read_back\": " << megabytes / best_[2]
                  << ", \"plain_read\": " << megabytes / best_[3] << ", \"load\": " << megabytes / best_[4]
                  << ", \"step\": " << best_[5] << ", \"pause\": " << best_[6]
                  << ", \"step_while_saving\": " << best_[7] << "}" << std::endl;
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
    fs::path plain() const { return directory_ / concat("plain.", runtime_.rank()); }

    // Seconds from the first rank's start to the last one's end.
    template <class Work>
    double timed(Work work) {
        runtime_.world().barrier();
        const auto start = std::chrono::steady_clock::now();
        work();
        runtime_.world().barrier();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
    std::vector<double> best_ = std::vector<double>(8, 1e9);
};

} // namespace

int main(int argc, char** argv) {
    comm::Runtime runtime(argc, argv);
    if (argc < 2)
        return 2;
    const auto number = [&](int i, std::int64_t otherwise) {
        return argc > i ? std::atoll(argv[i]) : otherwise;
    };
    Bench bench(runtime, argv[1], number(2, 6), number(3, 512));
    for (std::int64_t turn = 0; turn < number(4, 5); ++turn)
        bench.turn();
    bench.print();
}
