// Any bytes as JSONL, plain or compressed: an Error, or lines of which each is bad or has a text. Some inputs
// go through all of preprocess, with two workers as with one.
#include <cstdlib>
#include <memory>

#include "fuzz/fuzz_file.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/data/jsonl.hpp"
#include "trireme/data/preprocess.hpp"
#include "trireme/data/text_source.hpp"

namespace {

using namespace trireme;

void preprocess_alike(const std::string& input) {
    static const std::unique_ptr<data::Tokenizer> tokenizer =
        data::load_gpt2_bpe("tests/data/tiny/vocab.json", "tests/data/tiny/merges.txt");
    data::PreprocessOptions options;
    options.inputs = {input};
    options.output_prefix = fuzz::path_of("out");
    options.on_bad_line = data::OnBadLine::skip;
    const data::PreprocessResult result = data::preprocess(*tokenizer, options);
    const std::string bin = read_file(result.prefixes[0] + ".bin", ErrorCategory::data);
    options.workers = 2;
    data::preprocess(*tokenizer, options);
    if (read_file(result.prefixes[0] + ".bin", ErrorCategory::data) != bin)
        std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string path = fuzz::write("in.jsonl", bytes, size);
    try {
        data::JsonlReader reader({"text"});
        data::TextSource source(path);
        data::LineBlock block;
        std::string problem;
        while (source.next_lines(block)) {
            block.text.reserve(block.text.size() + data::JsonlReader::kPadding);
            data::for_each_line(block.text, block.first_line, [&](std::string_view line, std::int64_t) {
                if (problem.clear(), reader.read(line, problem).empty() == problem.empty())
                    std::abort();
            });
        }
        if (size % 64 == 0)
            preprocess_alike(path);
    } catch (const Error& error) {
        if (error.category() != ErrorCategory::data)
            std::abort();
    }
    return 0;
}
