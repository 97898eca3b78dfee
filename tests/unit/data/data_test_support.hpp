// What the tests of the data layer share: a directory that is removed again, and the message of an expected
// Error.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "trireme/base/error.hpp"

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
