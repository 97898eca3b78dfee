// Writes SAVE/last_exit.
#include "trireme/train/exit_record.hpp"

#include "trireme/base/file.hpp"

namespace trireme::train {
namespace {

constexpr const char* kName = "last_exit";

} // namespace

ExitRecord::ExitRecord(std::filesystem::path directory, std::optional<cluster::SlurmJob> job)
    : directory_(std::move(directory)), job_(std::move(job)) {}

void ExitRecord::clear() const {
    std::error_code missing, failure;
    if (directory_.empty() || !std::filesystem::exists(directory_ / kName, missing))
        return;
    std::filesystem::remove(directory_ / kName, failure);
    if (failure)
        throw Error(ErrorCategory::output,
                    concat("cannot remove ", (directory_ / kName).string(), ": ", failure.message()),
                    {"an earlier run left it", "try: a --save directory that you may write to"});
}

void ExitRecord::write(const std::string& reason, int exit_code, const std::string& signal) const {
    if (directory_.empty())
        return;
    publish_file(directory_ / kName,
                 concat("reason=", reason, "\nsignal=", signal, "\niteration=", iteration_.load(),
                        "\nexit=", exit_code, "\njob=", job_ ? job_->id : "",
                        "\nattempt=", job_ ? job_->restarts : 0, "\n"));
}

void ExitRecord::write_error(int exit_code) const {
    std::error_code missing;
    if (!ours_ || directory_.empty() || !std::filesystem::is_directory(directory_, missing))
        return;
    try {
        write("error", exit_code);
    } catch (const Error&) {
        return;
    }
}

} // namespace trireme::train
