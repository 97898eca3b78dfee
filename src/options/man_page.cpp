// The table as a manual page (docs/trireme.1; `make install` puts it where man looks): every honoured option
// of every command, and the exit codes that scripts can act on.
#include "options/describe.hpp"
#include "trireme/base/error.hpp"
#include "trireme/options/parse.hpp"

namespace trireme::options {
namespace {

// Text as roff reads it: a minus sign that can be copied, no backslash or leading dot taken for a command.
std::string roff(std::string_view text) {
    std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
    for (const char c : text)
        escaped += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
    return escaped;
}

struct ExitCode {
    ErrorCategory category;
    const char* meaning;
};

constexpr ExitCode kExitCodes[] = {
    {ErrorCategory::internal, "a bug of trireme"},
    {ErrorCategory::usage, "wrong options or configuration"},
    {ErrorCategory::data, "input files cannot be read or do not fit"},
    {ErrorCategory::checkpoint, "a checkpoint is missing, damaged or of another model"},
    {ErrorCategory::communication, "ranks cannot talk: MPI, NCCL, or the watchdog ended a hang"},
    {ErrorCategory::device, "no device, too little memory, or a failed preflight"},
    {ErrorCategory::non_finite, "loss or gradient is NaN or infinite"},
    {ErrorCategory::output, "output cannot be written: rights, or the disk is full"},
    {ErrorCategory::interrupted,
     "stopped by a signal or a time limit after saving: the same command goes on from there"},
};

std::string tagged(const std::string& tag, const std::string& text) {
    return concat(".TP\n", tag, "\n", text, "\n");
}

std::string options_of(Group group) {
    std::string rows;
    for (const Row& row : table()) {
        if (row.group != group)
            continue;
        const std::string limits = limits_of(row, Detail::full);
        rows += tagged(concat(".B ", roff(with_placeholder(row))),
                       roff(limits.empty() ? std::string(row.help) : concat(row.help, " (", limits, ")")));
    }
    return rows.empty() ? "" : concat(".SS ", roff(title_of(group)), "\n", rows);
}

} // namespace

std::string manual_page() {
    std::string page =
        R"(.\" Made from the option table (src/options/table*.cpp); a test holds that it stays so.
.TH TRIREME 1 "" Trireme "User commands"
.SH NAME
trireme \- pre\-train GPTs on Slurm and MPI clusters
.SH SYNOPSIS
.B trireme
.I COMMAND
[\fB\-\-config\fR \fIFILE\fR] [\fIOPTION\fR...]
.SH DESCRIPTION
Started by mpirun or srun once for each rank, or by itself as one rank. Options have Megatron\-LM's names, meanings and
defaults; \fBtrireme\fR \fICOMMAND\fR \fB\-\-help\fR shows those of a command. A file given with \fB\-\-config\fR holds the same names,
one \fIname = value\fR a line; the command line wins.
.SH OPTIONS
)";
    for (int number = 0; number <= static_cast<int>(kLastOwnGroup); ++number)
        page += options_of(Group{number});
    page += ".SH EXIT STATUS\n";
    page += tagged(".B 0", "the command did what was asked");
    for (const ExitCode& code : kExitCodes)
        page += tagged(concat(".B ", static_cast<int>(code.category)), roff(code.meaning));
    page += R"(.SH FILES
.TP
.I SAVE/iter_NNNNNNN
a checkpoint: HDF5 files that any layout reads
.TP
.I SAVE/latest_checkpointed_iteration.txt
the newest complete one
.TP
.I SAVE/metrics.jsonl
losses and speeds, a line for each step
.TP
.I PREFIX/share/trireme/job_templates
templates for sbatch, configurations of known models, and sites/EXAMPLE.env for a cluster's own settings
.SH SEE ALSO
.BR sbatch (1),
.BR srun (1),
and the pages in PREFIX/share/doc/trireme: options.md, data.md, checkpoint\-format.md, troubleshooting.md
)";
    return page;
}

} // namespace trireme::options
