// trireme-data train-bpe: learns vocab.json and merges.txt from JSONL.
#include <algorithm>
#include <iostream>
#include <thread>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/bpe_trainer.hpp"

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
    options.add_options()("workers", po::value<int>(), "threads that count words; all cores if not given");
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

    const int workers = given->count("workers")
                            ? (*given)["workers"].as<int>()
                            : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (workers < 1 || workers > 1024)
        throw Error(ErrorCategory::usage, concat("--workers ", workers, ": 1 to 1024 are possible"));

    data::CountedText counted;
    data::TrainedBpe trained;
    const data::BpeTrainer& trainer = counted.trainer;
    double seconds = 0;
    {
        ProgressLine line;
        counted = data::count_words(
            (*given)["input"].as<std::vector<std::string>>(),
            (*given)["json-keys"].as<std::vector<std::string>>(), workers, [&](std::int64_t text_bytes) {
                line.update([&] { return concat("counting words: ", show_bytes(text_bytes)); });
            });
        if (trainer.distinct_words() == 0)
            throw Error(ErrorCategory::data, "no text to learn from: the inputs hold no words");
        trained = trainer.train(vocab_size, [&](std::int64_t tokens) {
            line.update([&] { return concat("merging: ", tokens, " of ", vocab_size, " tokens"); });
        });
        seconds = line.seconds();
    }
    for (const char* option : {"vocab-file", "merge-file"})
        remove_unfinished((*given)[option].as<std::string>());
    publish_file((*given)["vocab-file"].as<std::string>(), trained.vocab_json());
    publish_file((*given)["merge-file"].as<std::string>(), trained.merges_txt());
    std::cout << "vocabulary of " << trained.tokens.size() + 1 << " tokens from " << counted.documents
              << " documents, " << show_bytes(counted.text_bytes) << ", " << trainer.distinct_words()
              << " distinct words, " << show_duration(seconds) << "\n";
    if (static_cast<std::int64_t>(trained.tokens.size()) + 1 < vocab_size)
        std::cout << "fewer than the " << vocab_size
                  << " asked for: no pair occurs twice any more; give more text for more\n";
    return 0;
}

} // namespace trireme::data_tools
