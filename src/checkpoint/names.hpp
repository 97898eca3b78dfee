// Names of files, groups and fields of the format; docs/checkpoint-format.md explains them.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "trireme/optimizer/optimizer.hpp"

namespace trireme::checkpoint {

inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr const char* kMarker = "latest_checkpointed_iteration.txt";
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
inline std::string stage_name(std::int64_t stage) {
    return numbered("stage_%03lld.h5", stage);
}

} // namespace trireme::checkpoint
