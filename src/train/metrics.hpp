// metrics.jsonl beside the checkpoints: the numbers of the log as one JSON object a line, whole lines only.
// Written by rank 0.
#pragma once

#include <filesystem>
#include <string>

namespace trireme::train {

enum class MetricsStart { fresh, resumed };

class MetricsFile {
  public:
    // fresh: an older file of another training is kept under the next free name metrics.jsonl.N. resumed:
    // lines are appended, behind the last whole one. Throws Error (output).
    MetricsFile(const std::filesystem::path& directory, MetricsStart start);
    ~MetricsFile();
    MetricsFile(const MetricsFile&) = delete;
    MetricsFile& operator=(const MetricsFile&) = delete;

    // Adds a line and hands it to the system. Throws Error (output): nothing of it is in the file, and the
    // next one may be tried.
    void add(const std::string& json);

  private:
    [[noreturn]] void fail() const;

    std::filesystem::path path_;
    int file_ = -1;
};

} // namespace trireme::train
