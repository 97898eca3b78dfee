// Names of files, groups and fields of the format; docs/checkpoint-format.md explains them.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/optimizer/optimizer.hpp"

namespace trireme::checkpoint {

inline constexpr std::int64_t kFormatVersion = 2;
inline constexpr const char* kMarker = "latest_checkpointed_iteration.txt";
inline constexpr const char* kReleaseDirectory = "release"; // weights to start from, without an iteration
inline constexpr const char* kIndexFile = "checkpoint.h5";
inline constexpr const char* kParameters = "/parameters/";
// By optimizer::StateKind.
inline constexpr std::array<const char*, optimizer::kStateKinds> kStateGroups{
    "/master_weights/", "/first_moment/", "/second_moment/"};
inline const char* group_of(optimizer::StateKind kind) {
    return kStateGroups[static_cast<std::size_t>(kind)];
}

inline std::string numbered(const char* format, std::int64_t number) {
    char text[64];
    std::snprintf(text, sizeof text, format, static_cast<long long>(number));
    return text;
}
inline std::string iteration_name(std::int64_t iteration) {
    return numbered("iter_%07lld", iteration);
}
// The number in the name of a checkpoint's directory; nothing for other names, those of unfinished ones
// included.
inline std::optional<std::int64_t> iteration_of(const std::filesystem::path& directory) {
    const std::string name =
        (directory.has_filename() ? directory : directory.parent_path()).filename().string();
    constexpr std::string_view kStart = "iter_";
    std::int64_t iteration = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(kStart))
        return std::nullopt;
    const auto [rest, failure] = std::from_chars(name.data() + kStart.size(), end, iteration);
    if (failure != std::errc{} || rest != end || name != iteration_name(iteration))
        return std::nullopt;
    return iteration;
}
inline std::string stage_name(std::int64_t stage) {
    return numbered("stage_%03lld.h5", stage);
}
// While it is written, while another takes its name, and while it is deleted.
inline constexpr const char* kPartialEnding = ".partial";
inline constexpr const char* kReplacedEnding = ".replaced";
inline constexpr const char* kDeletedEnding = ".deleted";
inline std::filesystem::path partial_name(const std::filesystem::path& checkpoint) {
    return checkpoint.string() + kPartialEnding;
}
inline std::filesystem::path replaced_name(const std::filesystem::path& checkpoint) {
    return checkpoint.string() + kReplacedEnding;
}
inline std::filesystem::path deleted_name(const std::filesystem::path& checkpoint) {
    return checkpoint.string() + kDeletedEnding;
}

} // namespace trireme::checkpoint
