// The copy on the main thread, the writing on another one. The writer uses neither MPI nor HDF5.
#include "trireme/checkpoint/background.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "ring_buffer.hpp"
#include "saving.hpp"
#include "share.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{32} << 20;
constexpr std::int64_t kSmallestBuffer = 64; // a few elements

// This thread alone: on a core that is busy with training it gets about a tenth of it (the weights of the two
// levels are 110 and 1024). Refusals are harmless.
void give_way() {
    constexpr int kNicer = 10, kNicest = 19;
    const auto thread = static_cast<id_t>(::gettid());
    static_cast<void>(
        ::setpriority(PRIO_PROCESS, thread, std::min(kNicest, ::getpriority(PRIO_PROCESS, thread) + kNicer)));
}

} // namespace

std::int64_t bytes_to_save(const Model& model) {
    std::int64_t bytes = 0;
    for (const Piece& piece :
         share_of_this_rank(model, contents_of(model.parameters->setup(), model.optimizer), kPieceBytes))
        bytes += piece.bytes();
    return bytes;
}

struct BackgroundSave::Impl {
    struct Job {
        std::size_t slot;
        topology::Box box;
        std::span<std::byte> elements;
    };

    RingBuffer buffer;
    comm::HostGroup* world = nullptr;
    std::unique_ptr<Saving> saving;
    std::thread thread;
    std::mutex mutex; // of the two below
    std::condition_variable added;
    std::deque<Job> jobs;
    bool all_added = false;
    std::atomic<bool> written{false};
    std::optional<Error> failure; // of the thread; read after it has ended

    explicit Impl(std::int64_t bytes) : buffer(std::max(kSmallestBuffer, bytes)) {}
    ~Impl() { end_thread(); }

    void end_thread() {
        {
            const std::scoped_lock lock(mutex);
            all_added = true;
        }
        added.notify_one();
        if (thread.joinable())
            thread.join();
    }

    std::optional<Job> next_job() {
        std::unique_lock lock(mutex);
        added.wait(lock, [this] { return !jobs.empty() || all_added; });
        if (jobs.empty())
            return std::nullopt;
        Job job = std::move(jobs.front());
        jobs.pop_front();
        return job;
    }

    // The thread. After a failure it goes on giving memory back, so that the copy does not wait for it for
    // ever.
    void write_all() {
        give_way();
        const std::unique_ptr<comm::HostGroup> alone = comm::make_self_host_group();
        while (std::optional<Job> job = next_job()) {
            if (!failure)
                failure = comm::attempt(*alone,
                                        [&] { saving->writer().write(job->slot, job->box, job->elements); });
            buffer.give_back();
        }
        if (!failure)
            failure = comm::attempt(*alone, [&] { saving->writer().finish(saving->options().read_back, 1); });
        written = true;
    }
};

BackgroundSave::BackgroundSave(std::int64_t buffer_bytes) : impl_(std::make_unique<Impl>(buffer_bytes)) {}
BackgroundSave::~BackgroundSave() = default;

void BackgroundSave::start(const std::filesystem::path& directory, const State& state, const Model& model,
                           const SaveOptions& options) {
    Impl& in = *impl_;
    TRIREME_ASSERT(!in.saving, "one checkpoint is in flight");
    in.world = model.groups->world;
    in.saving = std::make_unique<Saving>(directory, state, model, options);
    in.failure.reset();
    in.written = false;
    in.all_added = false;
    in.thread = std::thread([&in] { in.write_all(); });
    const std::int64_t piece_bytes =
        std::min(kPieceBytes, in.buffer.bytes() / 4); // some are written, others copied
    Elements elements(*model.backend);
    for (Piece& piece : share_of_this_rank(model, in.saving->contents(), piece_bytes)) {
        const std::span<std::byte> host = in.buffer.take(static_cast<std::size_t>(piece.bytes()));
        elements.copy(piece, host);
        {
            const std::scoped_lock lock(in.mutex);
            in.jobs.push_back({piece.slot, std::move(piece.box), host});
        }
        in.added.notify_one();
    }
    {
        const std::scoped_lock lock(in.mutex);
        in.all_added = true;
    }
    in.added.notify_one();
}

bool BackgroundSave::in_flight() const {
    return impl_->saving != nullptr;
}

bool BackgroundSave::is_written() const {
    double missing = impl_->written ? 0 : 1;
    impl_->world->all_reduce({&missing, 1}, comm::ReduceOp::max);
    return missing == 0;
}

std::filesystem::path BackgroundSave::finish() {
    Impl& in = *impl_;
    TRIREME_ASSERT(in.saving, "no checkpoint is in flight");
    const comm::PhaseScope phase("writing a checkpoint");
    in.end_thread();
    const std::unique_ptr<Saving> saving =
        std::move(in.saving); // gone when this function is left, whichever way
    comm::agree(*in.world, [&] {
        if (in.failure)
            throw Error(*in.failure);
    });
    return saving->publish();
}

} // namespace trireme::checkpoint
