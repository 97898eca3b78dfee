// HDF5's handles and status codes as owners and Errors.
#include "storage/hdf5.hpp"

#include <vector>

namespace trireme::storage {

namespace {

// Silences HDF5's own printing (its words are in our Errors) and its clean-up at exit, which would close
// files together with ranks that are gone.
void initialise() {
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

herr_t collect_words(unsigned, const H5E_error2_t* error, void* list) noexcept {
    auto& words = *static_cast<std::vector<std::string>*>(list);
    if (error->desc != nullptr && error->desc[0] != '\0' && (words.empty() || words.back() != error->desc))
        words.emplace_back(error->desc);
    return 0;
}

// Sign at bit 15, below it `exponent_bits`, below them the mantissa.
Type two_byte_float(std::size_t exponent_bits, std::size_t bias, const Attempt& attempt) {
    Type type(H5Tcopy(H5T_IEEE_F32LE), attempt);
    const std::size_t mantissa_bits = 15 - exponent_bits;
    check_hdf5(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits), attempt);
    check_hdf5(H5Tset_precision(type.get(), 16), attempt);
    check_hdf5(H5Tset_size(type.get(), 2), attempt);
    check_hdf5(H5Tset_ebias(type.get(), bias), attempt);
    return type;
}

} // namespace

std::unique_lock<std::recursive_mutex> hdf5_lock() {
    static std::recursive_mutex mutex;
    std::unique_lock lock(mutex);
    [[maybe_unused]] static const bool initialised = (initialise(), true);
    return lock;
}

void fail_hdf5(const Attempt& attempt, std::source_location where) {
    std::vector<std::string> words; // the innermost reason first
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_words, &words);
    H5Eclear2(H5E_DEFAULT);
    std::string text;
    constexpr std::size_t kShown = 4;
    for (std::size_t i = 0; i < words.size() && i < kShown; ++i)
        text += concat(i == 0 ? "" : "; ", words[i]);
    std::erase(text, '\n'); // there is one within the time of day
    throw Error(attempt.category, attempt.what,
                {concat("HDF5 says: ", text.empty() ? "nothing" : text),
                 attempt.category == ErrorCategory::output
                     ? "try: free space and quota (df), and the rights of the directory"
                     : "try: whether the file is complete and of this program (h5dump -H FILE)"},
                where);
}

Type hdf5_type(DType type, const Attempt& attempt) {
    switch (type) {
    case DType::f32:
        return Type(H5Tcopy(H5T_IEEE_F32LE), attempt);
    case DType::f64:
        return Type(H5Tcopy(H5T_IEEE_F64LE), attempt);
    case DType::bf16:
        return two_byte_float(8, 127, attempt); // the upper half of a float
    case DType::f16:
        return two_byte_float(5, 15, attempt); // h5py: float16
    case DType::i32:
        return Type(H5Tcopy(H5T_STD_I32LE), attempt);
    case DType::i64:
        return Type(H5Tcopy(H5T_STD_I64LE), attempt);
    case DType::u8:
        return Type(H5Tcopy(H5T_STD_U8LE), attempt);
    case DType::i16:
        return Type(H5Tcopy(H5T_STD_I16LE), attempt);
    }
    throw Error(ErrorCategory::internal, "an element type that HDF5 does not know");
}

DType element_type(hid_t dataset, const Attempt& attempt) {
    const Type found(H5Dget_type(dataset), attempt);
    for (const DType type :
         {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8, DType::i16})
        if (check_hdf5(H5Tequal(found.get(), hdf5_type(type, attempt).get()), attempt) > 0)
            return type;
    throw Error(attempt.category, attempt.what, {"its elements have a type that trireme does not write"});
}

} // namespace trireme::storage
