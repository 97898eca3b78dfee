// Verification of one checkpoint or many, as people see it.
#include <ostream>

#include "checkpoint/names.hpp"
#include "trireme/base/progress_line.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/checkpoint/tools.hpp"
#include "trireme/checkpoint/verify.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> checkpoints_at(const fs::path& path) {
    std::error_code ignored;
    if (fs::exists(path / kIndexFile, ignored) || iteration_of(path))
        return {path};
    if (fs::is_directory(path, ignored))
        return checkpoints_in(path);
    return {};
}

std::string summary(const Verdict& verdict) {
    if (!verdict.good())
        return concat("DAMAGED: ", verdict.findings.size(),
                      verdict.findings.size() == 1 ? " finding" : " findings");
    return concat("good: ", verdict.tensors, " datasets, ", show_bytes(verdict.bytes),
                  verdict.has_sums ? ", all sums agree" : ", read; format version 1 has no sums to compare");
}

} // namespace

void verify_and_report(const fs::path& path, std::ostream& out) {
    const std::vector<fs::path> checkpoints = checkpoints_at(path);
    if (checkpoints.empty())
        static_cast<void>(require_checkpoint(path)); // says so
    std::size_t damaged = 0;
    std::vector<std::string> findings;
    for (const fs::path& checkpoint : checkpoints) {
        Verdict verdict;
        {
            ProgressLine progress;
            progress.update([&] { return concat("reading ", checkpoint.string()); });
            verdict = verify(checkpoint);
        }
        out << checkpoint.string() << "  " << summary(verdict) << std::endl;
        damaged += verdict.good() ? 0 : 1;
        for (const Finding& finding : verdict.findings)
            findings.push_back(concat(checkpoint.filename().string(), " ", finding.text()));
    }
    if (damaged == 0)
        return;
    constexpr std::size_t kShown = 20;
    if (findings.size() > kShown) {
        const std::size_t more = findings.size() - kShown;
        findings.resize(kShown);
        findings.push_back(concat("and ", more, " more"));
    }
    findings.emplace_back("try: an earlier checkpoint (--ckpt-step), or a copy of this one");
    throw Error(ErrorCategory::checkpoint,
                concat(damaged, " of ", checkpoints.size(),
                       checkpoints.size() == 1 ? " checkpoint" : " checkpoints", " in ", path.string(),
                       damaged == 1 ? " is damaged" : " are damaged"),
                std::move(findings));
}

} // namespace trireme::checkpoint
