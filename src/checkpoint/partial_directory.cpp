// Creating, publishing and dropping the directory of a checkpoint.
#include "partial_directory.hpp"

#include "names.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/fault.hpp"
#include "trireme/base/file.hpp"

namespace trireme::checkpoint {
namespace fs = std::filesystem;

PartialDirectory::PartialDirectory(const fs::path& final) : final_(final), path_(partial_name(final)) {
    std::error_code failure;
    fs::remove_all(path_, failure); // what an interrupted save left
    fs::create_directories(path_, failure);
    if (failure)
        throw Error(ErrorCategory::output, concat("cannot create ", path_.string(), ": ", failure.message()),
                    {"try: check rights and room of the --save directory (ls -ld, df)"});
}

PartialDirectory::~PartialDirectory() {
    if (stage_ == Stage::settled)
        return;
    std::error_code ignored;
    if (stage_ == Stage::published)
        fs::rename(final_, path_, ignored);
    const fs::path aside = replaced_name(final_);
    if (fs::exists(aside, ignored) && !fs::exists(final_, ignored))
        fs::rename(aside, final_, ignored);
    fs::remove_all(path_, ignored);
}

void PartialDirectory::publish() {
    sync_directory(path_);
    std::error_code failure;
    const fs::path aside = replaced_name(final_);
    fs::remove_all(aside, failure);
    if (fs::exists(final_))
        fs::rename(final_, aside, failure);
    fault_point("save-rename");
    if (!failure)
        fs::rename(path_, final_, failure);
    if (failure)
        throw Error(ErrorCategory::output, concat("cannot rename ", path_.string(), " to ", final_.string(),
                                                  ": ", failure.message()));
    stage_ = Stage::published;
    sync_directory(final_.parent_path());
}

void PartialDirectory::settle() {
    stage_ = Stage::settled;
    std::error_code ignored;
    fs::remove_all(replaced_name(final_), ignored);
}

} // namespace trireme::checkpoint
