// Any bytes as input of preprocess: an Error or counted lines; with two workers the same as with one.
#include <cstdlib>
#include <memory>

#include "fuzz/fuzz_file.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/data/preprocess.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace trireme;
    static const std::unique_ptr<data::Tokenizer> tokenizer =
        data::load_gpt2_bpe("tests/data/tiny/vocab.json", "tests/data/tiny/merges.txt");
    data::PreprocessOptions options;
    options.inputs = {fuzz::write("in.jsonl", bytes, size)};
    options.output_prefix = fuzz::path_of("out");
    options.on_bad_line = data::OnBadLine::skip;
    try {
        const data::PreprocessResult result = data::preprocess(*tokenizer, options);
        const std::string bin = read_file(result.prefixes[0] + ".bin", ErrorCategory::data);
        options.workers = 2;
        data::preprocess(*tokenizer, options);
        if (read_file(result.prefixes[0] + ".bin", ErrorCategory::data) != bin)
            std::abort();
    } catch (const Error& error) {
        if (error.category() != ErrorCategory::data)
            std::abort();
    }
    return 0;
}
