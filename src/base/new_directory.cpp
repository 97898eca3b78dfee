// Fills a directory beside its final name.
#include "trireme/base/new_directory.hpp"

#include "trireme/base/file.hpp"
#include "trireme/base/output_file.hpp"

namespace trireme {

namespace fs = std::filesystem;

NewDirectory::NewDirectory(fs::path path) : path_(std::move(path)) {
    while (!path_.has_filename() && path_.has_parent_path() && path_ != path_.root_path())
        path_ = path_.parent_path(); // "dir/" is "dir"
    partial_ = concat(path_.string(), ".partial");
    std::error_code failure;
    if (fs::exists(path_, failure) && !(fs::is_directory(path_, failure) && fs::is_empty(path_, failure)))
        throw Error(ErrorCategory::usage,
                    concat(path_.string(), " is there already and not an empty directory"),
                    {"try: another directory, or move it away"});
    fs::remove_all(partial_, failure); // what an interrupted run left
    fs::create_directories(partial_, failure);
    if (failure)
        throw Error(ErrorCategory::output,
                    concat("cannot create ", partial_.string(), ": ", failure.message()),
                    {"try: a directory that you may write to"});
}

NewDirectory::~NewDirectory() {
    std::error_code ignored;
    if (!partial_.empty())
        fs::remove_all(partial_, ignored);
}

void NewDirectory::publish() {
    sync_directory(partial_);
    std::error_code failure;
    fs::rename(partial_, path_, failure);
    if (failure)
        throw Error(ErrorCategory::output, concat("cannot rename ", partial_.string(), " to ", path_.string(),
                                                  ": ", failure.message()));
    partial_.clear();
    sync_directory(directory_of(path_));
}

} // namespace trireme
