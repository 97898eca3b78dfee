// HDF5's handles and status codes as owners and Errors. Private to storage; every caller holds hdf5_lock().
#pragma once

#include <hdf5.h>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme::storage {

// The parallel build of HDF5 is not thread-safe. Recursive, since owners close their handles under it too.
[[nodiscard]] std::unique_lock<std::recursive_mutex> hdf5_lock();

// What was being done to which file, and what kind of failure that is.
struct Attempt {
    ErrorCategory category;
    std::string what; // "cannot write /parameters/x of FILE"
};

[[noreturn]] void fail_hdf5(const Attempt& attempt,
                            std::source_location where = std::source_location::current());

// Passes a status or a handle through; throws Error with HDF5's own words if it is negative.
template <class Value>
Value check_hdf5(Value value, const Attempt& attempt,
                 std::source_location where = std::source_location::current()) {
    if (value < 0)
        fail_hdf5(attempt, where);
    return value;
}

// One handle, closed by Close.
template <herr_t (*Close)(hid_t)>
class Handle {
  public:
    Handle() = default;
    Handle(hid_t id, const Attempt& attempt, std::source_location where = std::source_location::current())
        : id_(check_hdf5(id, attempt, where)) {}
    Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
        if (id_ >= 0) {
            const auto lock = hdf5_lock();
            Close(id_);
        }
    }

    hid_t get() const { return id_; }
    hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }

  private:
    hid_t id_ = H5I_INVALID_HID;
};
using FileHandle = Handle<H5Fclose>;
using Dataset = Handle<H5Dclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Properties = Handle<H5Pclose>;

// The type of the elements of a tensor in memory and, little-endian everywhere, in a file.
Type hdf5_type(DType type, const Attempt& attempt);
// The element type of a dataset; Error if trireme has none like it.
DType element_type(hid_t dataset, const Attempt& attempt);

} // namespace trireme::storage
