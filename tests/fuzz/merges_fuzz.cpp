// Any bytes as merges.txt: an Error, or a tokenizer that keeps every text.
#include <cstdlib>
#include <memory>

#include "fuzz/fuzz_file.hpp"
#include "trireme/base/error.hpp"
#include "trireme/data/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace trireme;
    const std::string path = fuzz::write("merges.txt", bytes, size);
    try {
        const auto tokenizer = data::load_gpt2_bpe("tests/data/tiny/vocab.json", path);
        const std::string text(reinterpret_cast<const char*>(bytes), size);
        if (tokenizer->decode(tokenizer->encode(text)) != text)
            std::abort();
    } catch (const Error& error) {
        if (error.category() != ErrorCategory::data)
            std::abort();
    }
    return 0;
}
