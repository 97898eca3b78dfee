// trireme-data preprocess: JSONL to .bin/.idx.
#include "trireme/data/preprocess.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::data_tools {

namespace po = boost::program_options;

static data::OnBadLine bad_line_policy(const std::string& word) {
    if (word != "error" && word != "skip")
        throw Error(ErrorCategory::usage, concat("--on-bad-line ", word, " is not known: error or skip"));
    return word == "skip" ? data::OnBadLine::skip : data::OnBadLine::error;
}

int preprocess(const Arguments& arguments) {
    po::options_description options("Options");
    options.add_options()("input", po::value<std::vector<std::string>>()->multitoken()->required(),
                          "JSONL files, also .gz and .zst (recognised by content), or - for standard input");
    options.add_options()("output-prefix", po::value<std::string>()->required(),
                          "writes PREFIX_KEY_document.bin and .idx");
    options.add_options()(
        "json-keys", po::value<std::vector<std::string>>()->multitoken()->default_value({"text"}, "text"),
        "keys whose strings are the documents, a pair of files for each");
    options.add_options()("append-eod", po::bool_switch(),
                          "end each document that is not empty with <|endoftext|>");
    options.add_options()("workers", po::value<int>()->default_value(1),
                          "threads, of which at most 40 are used; the files are the same for any number");
    options.add_options()("on-bad-line", po::value<std::string>()->default_value("error"),
                          "error, or skip: leave out and count");
    options.add_options()("shuffle-documents", po::value<std::uint64_t>(),
                          "SEED: documents in a random order; takes the disk space of the files once more");
    add_tokenizer_options(options);
    const auto given = parse_arguments(
        arguments,
        "preprocess --input FILE... --output-prefix PREFIX --vocab-file FILE --merge-file FILE [OPTIONS]",
        options);
    if (!given)
        return 0;
    data::PreprocessOptions job;
    job.inputs = (*given)["input"].as<std::vector<std::string>>();
    job.output_prefix = (*given)["output-prefix"].as<std::string>();
    job.json_keys = (*given)["json-keys"].as<std::vector<std::string>>();
    job.end_of_document =
        (*given)["append-eod"].as<bool>() ? data::EndOfDocument::append : data::EndOfDocument::omit;
    job.on_bad_line = bad_line_policy((*given)["on-bad-line"].as<std::string>());
    if (given->count("shuffle-documents"))
        job.shuffle_seed = (*given)["shuffle-documents"].as<std::uint64_t>();
    job.workers = (*given)["workers"].as<int>();
    if (job.workers < 1 || job.workers > 1024)
        throw Error(ErrorCategory::usage, concat("--workers ", job.workers, ": 1 to 1024 are possible"));
    std::vector<std::string> keys = job.json_keys;
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
        throw Error(ErrorCategory::usage, concat("--json-keys names ", *twice, " twice"));
    const std::unique_ptr<data::Tokenizer> tokenizer = make_tokenizer(*given);

    for (const std::string& key : job.json_keys)
        remove_unfinished(concat(job.output_prefix, "_", key, "_document"));

    data::PreprocessResult result;
    double seconds = 0;
    {
        ProgressLine line;
        result = data::preprocess(*tokenizer, job, [&](const data::PreprocessProgress& progress) {
            line.update([&] { return data::describe(progress, line.seconds()); });
        });
        seconds = line.seconds();
    }
    std::cout << "documents " << result.documents << " (" << result.empty_documents << " empty), tokens "
              << result.tokens << ", text " << show_bytes(result.text_bytes) << ", " << show_duration(seconds)
              << "\n";
    if (result.bad_lines > 0) {
        std::cout << "bad lines left out: " << result.bad_lines << "\n";
        for (const std::string& bad : result.first_bad_lines)
            std::cout << "  " << bad << "\n";
    }
    for (const std::string& prefix : result.prefixes)
        std::cout << "--data-path " << prefix << "\n";
    return 0;
}

} // namespace trireme::data_tools
