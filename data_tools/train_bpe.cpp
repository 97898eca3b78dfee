// trireme-data train-bpe: learns vocab.json and merges.txt from JSONL.
#include <iostream>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/bpe_trainer.hpp"
#include "trireme/data/jsonl.hpp"
#include "trireme/data/text_source.hpp"

namespace trireme::data_tools {

namespace po = boost::program_options;

int train_bpe(const Arguments& arguments) {
    po::options_description options("Options");
    options.add_options()("input", po::value<std::vector<std::string>>()->multitoken()->required(),
                          "JSONL files, also .gz and .zst, or - for standard input");
    options.add_options()(
        "json-keys", po::value<std::vector<std::string>>()->multitoken()->default_value({"text"}, "text"),
        "keys whose strings are the text");
    options.add_options()("vocab-size", po::value<std::int64_t>()->required(),
                          "tokens in all, <|endoftext|> among them");
    options.add_options()("vocab-file", po::value<std::string>()->required(), "vocab.json to write");
    options.add_options()("merge-file", po::value<std::string>()->required(), "merges.txt to write");
    const auto given = parse_arguments(
        arguments, "train-bpe --input FILE... --vocab-size N --vocab-file FILE --merge-file FILE", options);
    if (!given)
        return 0;
    const std::int64_t vocab_size = (*given)["vocab-size"].as<std::int64_t>();
    constexpr std::int64_t kFewest = 257, kMost = 1 << 20;
    if (vocab_size < kFewest || vocab_size > kMost)
        throw Error(ErrorCategory::usage,
                    concat("--vocab-size ", vocab_size, ": ", kFewest, " (256 bytes and <|endoftext|>) to ",
                           kMost, " are possible"));

    data::BpeTrainer trainer;
    data::TrainedBpe trained;
    std::int64_t documents = 0, text_bytes = 0;
    double seconds = 0;
    {
        ProgressLine line;
        data::JsonlReader reader((*given)["json-keys"].as<std::vector<std::string>>());
        std::string problem;
        for (const std::string& input : (*given)["input"].as<std::vector<std::string>>()) {
            data::TextSource source(input);
            data::LineBlock block;
            while (source.next_lines(block)) {
                block.text.reserve(block.text.size() + data::JsonlReader::kPadding);
                data::for_each_line(block.text, block.first_line,
                                    [&](std::string_view text, std::int64_t number) {
                                        const auto values = reader.read(text, problem);
                                        if (!problem.empty())
                                            throw Error(ErrorCategory::data,
                                                        concat(source.name(), ":", number, ": ", problem));
                                        for (const std::string_view value : values) {
                                            trainer.add(value);
                                            text_bytes += static_cast<std::int64_t>(value.size());
                                        }
                                        ++documents;
                                    });
                line.update([&] { return concat("counting words: ", show_bytes(text_bytes)); });
            }
        }
        if (trainer.distinct_words() == 0)
            throw Error(ErrorCategory::data, "no text to learn from: the inputs hold no words");
        trained = trainer.train(vocab_size, [&](std::int64_t tokens) {
            line.update([&] { return concat("merging: ", tokens, " of ", vocab_size, " tokens"); });
        });
        seconds = line.seconds();
    }
    publish_file((*given)["vocab-file"].as<std::string>(), trained.vocab_json());
    publish_file((*given)["merge-file"].as<std::string>(), trained.merges_txt());
    std::cout << "vocabulary of " << trained.tokens.size() + 1 << " tokens from " << documents
              << " documents, " << show_bytes(text_bytes) << ", " << trainer.distinct_words()
              << " distinct words, " << show_duration(seconds) << "\n";
    if (static_cast<std::int64_t>(trained.tokens.size()) + 1 < vocab_size)
        std::cout << "fewer than the " << vocab_size
                  << " asked for: no pair occurs twice any more; give more text for more\n";
    return 0;
}

} // namespace trireme::data_tools
