// What the tests of the data layer share: a directory that is removed again, and the message of an expected
// Error.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::data {

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "trireme_data_test_XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr)
            throw Error(ErrorCategory::output, concat("cannot create ", name));
        path_ = name;
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    std::string prefix(const std::string& name) const { return (path_ / name).string(); }
    std::filesystem::path write(const std::string& name, const std::string& content) const {
        std::ofstream(path_ / name, std::ios::binary) << content;
        return path_ / name;
    }

  private:
    std::filesystem::path path_;
};

using Documents = std::vector<std::vector<std::int32_t>>;

// The next value of a file, which moves `at` past it.
template <class Value>
Value take(const std::string& bytes, std::size_t& at) {
    Value value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
}

// A reader of .bin/.idx written from the format's description alone.
inline Documents read_independently(const std::string& prefix) {
    const std::string idx = read_file(prefix + ".idx", ErrorCategory::data),
                      bin = read_file(prefix + ".bin", ErrorCategory::data);
    EXPECT_EQ(idx.substr(0, 9), std::string("MMIDIDX\0\0", 9));
    std::size_t at = 9;
    EXPECT_EQ(take<std::uint64_t>(idx, at), 1u);
    const int code = take<std::uint8_t>(idx, at);
    EXPECT_TRUE(code == 4 || code == 8);
    const auto sequences = take<std::uint64_t>(idx, at), boundaries = take<std::uint64_t>(idx, at);
    EXPECT_EQ(boundaries, sequences + 1);
    std::vector<std::int32_t> lengths;
    for (std::uint64_t index = 0; index < sequences; ++index)
        lengths.push_back(take<std::int32_t>(idx, at));
    Documents documents;
    for (std::uint64_t index = 0; index < sequences; ++index) {
        std::size_t from = take<std::uint64_t>(idx, at);
        documents.emplace_back();
        for (std::int32_t token = 0; token < lengths[index]; ++token)
            documents.back().push_back(code == 8 ? take<std::uint16_t>(bin, from)
                                                 : take<std::int32_t>(bin, from));
    }
    for (std::uint64_t index = 0; index < boundaries; ++index)
        EXPECT_EQ(take<std::uint64_t>(idx, at), index);
    EXPECT_EQ(at, idx.size());
    return documents;
}

// The whole message of the Error that `action` throws, "(no error)" when it throws none.
template <class Action>
std::string message_of(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error.message();
    }
    return "(no error)";
}

template <class Action>
int exit_code_of(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error.exit_code();
    }
    return 0;
}

} // namespace trireme::data
