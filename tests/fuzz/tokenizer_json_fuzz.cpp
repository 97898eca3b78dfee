// Any bytes as tokenizer.json: an Error, or a tokenizer that takes every text and can decode its ids.
#include <cstdlib>

#include "fuzz/fuzz_file.hpp"
#include "trireme/base/error.hpp"
#include "trireme/data/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace trireme;
    const std::string path = fuzz::write("tokenizer.json", bytes, size);
    try {
        const auto tokenizer = data::load_hf_tokenizer(path, data::SpecialTokens::have_ids);
        const std::string text(reinterpret_cast<const char*>(bytes), size);
        static_cast<void>(tokenizer->decode(tokenizer->encode(text)));
    } catch (const Error& error) {
        if (error.category() != ErrorCategory::data)
            std::abort();
    }
    return 0;
}
