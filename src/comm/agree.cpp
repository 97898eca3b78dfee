// agree(): the failure of one rank becomes the failure of its whole group, once each has finished its own
// attempt.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unistd.h>

#include "comm/rank_list.hpp"
#include "trireme/comm/host_group.hpp"

namespace trireme::comm {

namespace {

// One rank's outcome as bytes: fields are length-prefixed; no fields at all mean success.
std::string pack(const std::vector<std::string>& fields) {
    std::string bytes;
    for (const std::string& field : fields) {
        const auto length = static_cast<std::uint64_t>(field.size());
        bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
        bytes += field;
    }
    return bytes;
}

std::vector<std::string> unpack(const std::string& bytes) {
    std::vector<std::string> fields;
    for (std::size_t at = 0; at < bytes.size();) {
        std::uint64_t length = 0;
        TRIREME_ASSERT(at + sizeof length <= bytes.size(), "damaged outcome of a rank");
        std::memcpy(&length, bytes.data() + at, sizeof length);
        at += sizeof length;
        TRIREME_ASSERT(length <= bytes.size() - at, "damaged outcome of a rank");
        fields.push_back(bytes.substr(at, length));
        at += length;
    }
    return fields;
}

std::string host_name() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

// host, category, what happened, details ...
std::vector<std::string> outcome_of(const Error& error) {
    std::vector<std::string> fields = {host_name(), std::to_string(error.exit_code()), error.what()};
    fields.insert(fields.end(), error.details().begin(), error.details().end());
    if (error.category() == ErrorCategory::internal)
        fields.push_back(concat("thrown at ", error.where().file_name(), ":", error.where().line()));
    return fields;
}

} // namespace

void agree(HostGroup& group, const std::function<void()>& work) {
    if (const std::optional<Error> error = attempt(group, work))
        throw Error(*error);
}

std::optional<Error> attempt(HostGroup& group, const std::function<void()>& work) {
    std::vector<std::string> outcome;
    try {
        work();
    } catch (const Error& error) {
        outcome = outcome_of(error);
    } catch (const std::exception& error) {
        outcome = outcome_of(Error(ErrorCategory::internal, concat("unexpected exception: ", error.what())));
    }

    const std::vector<std::string> packed = group.all_gather(pack(outcome));
    std::vector<std::vector<std::string>> outcomes;
    std::vector<int> failed;                             // world ranks
    std::map<std::string, std::vector<int>> other_words; // what else happened, and where
    for (std::size_t r = 0; r < packed.size(); ++r) {
        std::vector<std::string> fields = unpack(packed[r]);
        if (fields.empty())
            continue;
        failed.push_back(group.world_ranks()[r]);
        outcomes.push_back(std::move(fields));
        if (outcomes.back()[2] != outcomes.front()[2])
            other_words[outcomes.back()[2]].push_back(failed.back());
    }
    if (failed.empty())
        return std::nullopt;

    const std::vector<std::string>& first = outcomes.front();
    std::vector<std::string> details(first.begin() + 3, first.end());
    if (static_cast<int>(failed.size()) < group.size() || !other_words.empty()) {
        std::string line = concat("on rank ", failed.front(), " (", first[0], ")");
        if (failed.size() > 1)
            line += concat("; failed: ", rank_list(failed), " of ", group.size(), " ranks");
        details.push_back(line);
        constexpr std::size_t kShown = 3;
        std::size_t shown = 0;
        for (const auto& [words, ranks] : other_words)
            if (shown++ < kShown)
                details.push_back(concat(rank_list(ranks), ": ", words));
        if (other_words.size() > kShown)
            details.push_back(concat("and ", other_words.size() - kShown, " other messages"));
    }
    Error common(static_cast<ErrorCategory>(std::stoi(first[1])), first[2], std::move(details));
    common.set_agreement({group.size(), group.world_ranks().front()});
    return common;
}

} // namespace trireme::comm
