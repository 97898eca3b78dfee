// Names of files, groups and fields of the format; docs/checkpoint-format.md explains them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace trireme::checkpoint {

inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr const char* kMarker = "latest_checkpointed_iteration.txt";
inline constexpr const char* kIndexFile = "checkpoint.h5";
inline constexpr const char* kParameters = "/parameters/";
inline constexpr const char* kFirstMoment = "/first_moment/";
inline constexpr const char* kSecondMoment = "/second_moment/";

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
