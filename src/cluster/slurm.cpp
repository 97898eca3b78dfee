// Reads what Slurm tells a task.
#include "trireme/cluster/slurm.hpp"

#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "trireme/base/command.hpp"

namespace trireme::cluster {
namespace {

std::optional<std::int64_t> whole_number(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{} || end != text.data() + text.size() || text.empty() || value < 0)
        return std::nullopt;
    return value;
}

std::vector<std::string> cut(const std::string& text, char at) {
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == at)
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

} // namespace

std::optional<std::string> variable(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<SlurmJob> find_slurm_job(const Variables& get) {
    const std::optional<std::string> id = get("SLURM_JOB_ID");
    if (!id || id->empty())
        return std::nullopt;
    SlurmJob job;
    job.id = *id;
    job.restarts = whole_number(get("SLURM_RESTART_COUNT").value_or("0")).value_or(0);
    job.end_time = whole_number(get("SLURM_JOB_END_TIME").value_or(""));
    return job;
}

std::optional<std::int64_t> parse_time_left(const std::string& text) {
    const std::vector<std::string> days = cut(text, '-');
    if (days.size() > 2)
        return std::nullopt;
    std::int64_t seconds = 0;
    if (days.size() == 2) {
        const std::optional<std::int64_t> count = whole_number(days[0]);
        if (!count)
            return std::nullopt;
        seconds = *count * 24;
    }
    const std::vector<std::string> parts = cut(days.back(), ':');
    if (parts.size() < 2 || parts.size() > 3 || (days.size() == 2 && parts.size() != 3))
        return std::nullopt;
    if (parts.size() == 2)
        seconds *= 60; // no hours
    for (const std::string& part : parts) {
        const std::optional<std::int64_t> count = whole_number(part);
        if (!count)
            return std::nullopt;
        seconds = seconds * (&part == &parts.front() ? 1 : 60) + *count;
    }
    return seconds;
}

std::optional<std::int64_t> ask_end_time(const SlurmJob& job) {
    // All tasks of an array answer to the number of the array: the job's own line is the one wanted.
    const std::optional<std::string> answer =
        output_of({"squeue", "--noheader", "--job=" + job.id, "--format=%A %L"}, 10);
    if (!answer)
        return std::nullopt;
    std::istringstream lines(*answer);
    for (std::string id, left; lines >> id >> left;)
        if (id == job.id && left == "UNLIMITED")
            return kNoEnd;
        else if (id == job.id)
            if (const std::optional<std::int64_t> seconds = parse_time_left(left))
                return now_since_1970() + *seconds;
    return std::nullopt;
}

std::int64_t now_since_1970() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

} // namespace trireme::cluster
