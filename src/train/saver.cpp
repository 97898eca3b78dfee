// Saving during a run.
#include "saver.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>

#include "clock.hpp"
#include "say.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/plan/screen.hpp"

namespace trireme::train {
namespace {

// Early and in words: a directory that cannot be written should not be found out after the first thousand
// steps.
void require_writable(const std::filesystem::path& directory) {
    std::error_code failure;
    std::filesystem::create_directories(directory, failure);
    if (failure)
        throw Error(ErrorCategory::output,
                    concat("cannot create the directory ", directory.string(), ": ", failure.message()),
                    {"--save names it", "try: a directory that you may write to"});
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
        throw Error(ErrorCategory::output,
                    concat("cannot write to ", directory.string(), ": ", system_reason()),
                    {"--save names it", "try: a directory that you may write to"});
}

} // namespace

Saver::Saver(const options::Resolved& options, comm::Runtime& runtime)
    : options_(options.checkpoint), runtime_(runtime) {
    retention_.last = options_.save_retain;
    retention_.interval = options_.save_retain_interval;
    comm::agree(runtime.world(), [&] {
        if (runtime.rank() != 0)
            return;
        require_writable(options_.save);
        lease_.emplace(options_.save, [&](const std::string& text) { say(runtime_, text); });
        for (const std::string& line : checkpoint::clean_up(options_.save))
            say(runtime_, concat("cleared   ", line));
        striping_.emplace(options_.save, Stripes{options_.save_stripe_count, options_.save_stripe_bytes},
                          static_cast<int>(options.layout.ranks / options.layout.pipeline_parallel));
        if (const std::optional<std::string> trouble = striping_->trouble())
            warn(*trouble);
    });
}

checkpoint::SaveOptions Saver::how() {
    checkpoint::SaveOptions how;
    how.read_back = options_.verify_save ? checkpoint::ReadBack::yes : checkpoint::ReadBack::no;
    if (lease_)
        how.before_publishing = [this] { lease_->require_held(); };
    if (striping_)
        how.in_new_directory = [this](const std::filesystem::path& directory) {
            const StripeNews news = striping_->apply(directory);
            if (!news.line.empty())
                say(runtime_, concat(" ", news.line));
            for (const std::string& warning : news.warnings)
                warn(warning);
        };
    return how;
}

std::string Saver::advice() const {
    const std::optional<std::string> text = striping_ ? striping_->advice() : std::nullopt;
    return text ? plan::screen_row("save", *text) : "";
}

std::string Saver::plan(const checkpoint::Model& model) {
    const std::string advised = advice();
    if (!options_.async_save)
        return advised;
    const std::int64_t state = checkpoint::bytes_to_save(model);
    const std::int64_t buffer =
        options_.save_buffer_bytes > 0 ? std::min(state, options_.save_buffer_bytes) : state;
    comm::agree(runtime_.world(), [&] { writer_.emplace(buffer); });
    std::array<double, 2> most{static_cast<double>(state), static_cast<double>(state - buffer)};
    runtime_.world().all_reduce(most, comm::ReduceOp::max);
    const auto largest = static_cast<std::int64_t>(most[0]), waiting = static_cast<std::int64_t>(most[1]);
    return concat(advised, "save      in the background, from up to ", show_bytes(largest - waiting),
                  " of host memory a rank",
                  waiting == 0 ? ", which hold its state"
                               : concat("; its state is ", show_bytes(largest), ": training pauses until ",
                                        show_bytes(waiting), " of it are written (--save-buffer-mb)"),
                  "\n");
}

void Saver::save(const checkpoint::State& state, const checkpoint::Model& model, SaveKind kind) {
    const comm::PhaseScope phase("saving a checkpoint");
    finish(); // at most one is in flight
    const Started started{state.iteration, Clock::now(), 0};
    std::filesystem::path path;
    const std::optional<Error> failure = comm::attempt(runtime_.world(), [&] {
        if (writer_)
            writer_->start(options_.save, state, model, how());
        else
            path = checkpoint::save(options_.save, state, model, how());
    });
    if (failure) {
        report_failure(*failure, state.iteration, kind);
        return;
    }
    if (!writer_) {
        published(state.iteration,
                  concat(" saved ", path.string(), " in ", show_seconds(seconds_since(started.at))));
        return;
    }
    in_flight_ = started;
    in_flight_.paused_seconds = std::chrono::duration<double>(Clock::now() - started.at).count();
    if (kind == SaveKind::last)
        publish_in_flight(kind);
}

void Saver::poll() {
    if (writer_ && writer_->in_flight() && writer_->is_written())
        publish_in_flight(SaveKind::periodic);
}

void Saver::finish() {
    if (writer_ && writer_->in_flight())
        publish_in_flight(SaveKind::periodic);
}

void Saver::publish_in_flight(SaveKind kind) {
    std::filesystem::path path;
    const std::optional<Error> failure = comm::attempt(runtime_.world(), [&] { path = writer_->finish(); });
    if (failure) {
        report_failure(*failure, in_flight_.iteration, kind);
        return;
    }
    char paused[32];
    std::snprintf(paused, sizeof paused, "%.3f s", in_flight_.paused_seconds);
    published(in_flight_.iteration,
              concat(" saved ", path.string(), " in ", show_seconds(seconds_since(in_flight_.at)),
                     ", in the background after a pause of ", paused));
}

void Saver::report_failure(const Error& failure, std::int64_t iteration, SaveKind kind) const {
    if (kind == SaveKind::last || options_.exit_on_save_failure)
        throw Error(failure);
    if (runtime_.rank() == 0)
        std::cerr << failure.message() << "  iteration " << iteration
                  << " was not saved, earlier checkpoints are untouched; training goes on "
                     "(--exit-on-save-failure ends it)"
                  << std::endl;
}

void Saver::published(std::int64_t iteration, const std::string& text) {
    saved_iteration_ = iteration;
    say(runtime_, text);
    comm::agree(runtime_.world(), [&] {
        if (runtime_.rank() == 0)
            for (const std::string& line :
                 checkpoint::remove_superfluous(options_.save, iteration, retention_))
                say(runtime_, concat(" ", line));
    });
}

} // namespace trireme::train
