// metrics.jsonl beside the checkpoints: the numbers of the log as one JSON object a line. Written by rank 0.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace trireme::train {

enum class MetricsStart { fresh, resumed };

class MetricsFile {
  public:
    // fresh: an older file of another training is kept under the next free name metrics.jsonl.N. resumed:
    // lines are appended. Throws Error (output).
    MetricsFile(const std::filesystem::path& directory, MetricsStart start);

    // Adds a line and hands it to the system. Throws Error (output).
    void add(const std::string& json);

  private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::filesystem::path path_;
    std::unique_ptr<std::FILE, Close> file_;
};

} // namespace trireme::train
