// Rules of data and tokenizer: one way to name the parts, and what the tokenizer is made from.
#include <algorithm>

#include "options/checker.hpp"
#include "options/tokenizer_files.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {

std::vector<std::string_view> files_of_tokenizer(std::string_view type) {
    if (type == "HFTokenizerFile")
        return {"tokenizer-model"};
    if (type == "NullTokenizer")
        return {"vocab-size"};
    return {"vocab-file", "merge-file"};
}

void check_data(Checker& check) {
    const Values& v = check.values;
    if (v.tokenizer_type && check.sound({"tokenizer-type"})) {
        const std::vector<std::string_view> used = files_of_tokenizer(*v.tokenizer_type);
        for (const std::string_view name : {"vocab-file", "merge-file", "tokenizer-model"})
            if (check.given(name) && check.sound({name}) && std::ranges::find(used, name) == used.end())
                check.complain(concat("--", name, " does nothing with this tokenizer"),
                               {name, "tokenizer-type"}, concat("leave out --", name));
    }
    if (check.command == Command::generate)
        return;
    for (const std::string_view name : {"train-data-path", "valid-data-path", "test-data-path"}) {
        if (!check.given(name))
            continue;
        if (check.given("data-path"))
            check.complain(concat("--data-path and --", name, " cannot be used together"),
                           {"data-path", name}, "--data-path with --split, or a path for each part");
        else if (check.given("split"))
            check.complain(concat("--split does nothing with --", name, ": its files are taken whole"),
                           {"split", name}, "leave out --split");
        else
            continue;
        return;
    }
    if (check.command == Command::pretrain && !v.train_data_path.empty() && v.valid_data_path.empty() &&
        v.eval_interval && v.eval_iters > 0 &&
        check.sound({"eval-interval", "eval-iters", "valid-data-path"}))
        check.complain("there is nothing to evaluate on: --valid-data-path is missing",
                       {"eval-interval", "train-data-path"},
                       "--valid-data-path, or leave out --eval-interval");
}

} // namespace trireme::options
