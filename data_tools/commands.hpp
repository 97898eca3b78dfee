// The sub-commands of trireme-data, one file each, and what their command lines share.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/progress_line.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data_tools {

using Arguments = std::vector<std::string>; // what follows the name of the sub-command

int collect(const Arguments& arguments);
int train_bpe(const Arguments& arguments);
int preprocess(const Arguments& arguments);
int inspect(const Arguments& arguments);
int merge(const Arguments& arguments);
int verify(const Arguments& arguments);
int tokenize(const Arguments& arguments);
int detokenize(const Arguments& arguments);

// Options as given, or nothing when --help was asked for and has been printed. `positional`, if not empty,
// names the option that takes words without a name. Throws Error (usage).
std::optional<boost::program_options::variables_map>
parse_arguments(const Arguments& arguments, const std::string& usage,
                const boost::program_options::options_description& options,
                const std::string& positional = {});

// Removes the unfinished files that killed runs on this host have left of the outputs whose paths begin with
// `start`, and says so.
void remove_unfinished(const std::string& start);

// --tokenizer-type and what it is made from, --allow-special.
void add_tokenizer_options(boost::program_options::options_description& options);
bool names_tokenizer(const boost::program_options::variables_map& given);
std::unique_ptr<data::Tokenizer> make_tokenizer(const boost::program_options::variables_map& given);

} // namespace trireme::data_tools
