// Appends lines to metrics.jsonl.
#include "metrics.hpp"

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::train {

MetricsFile::MetricsFile(const std::filesystem::path& directory, MetricsStart start)
    : path_(directory / "metrics.jsonl") {
    std::error_code ignored;
    if (start == MetricsStart::fresh && std::filesystem::exists(path_, ignored)) {
        int number = 1;
        while (std::filesystem::exists(concat(path_.string(), ".", number), ignored))
            ++number;
        std::filesystem::rename(path_, concat(path_.string(), ".", number), ignored);
    }
    file_.reset(std::fopen(path_.c_str(), "a"));
    if (!file_)
        throw Error(ErrorCategory::output, concat("cannot write ", path_.string(), ": ", system_reason()));
}

void MetricsFile::add(const std::string& json) {
    if (std::fprintf(file_.get(), "%s\n", json.c_str()) < 0 || std::fflush(file_.get()) != 0)
        throw Error(ErrorCategory::output, concat("cannot write ", path_.string(), ": ", system_reason()));
}

} // namespace trireme::train
