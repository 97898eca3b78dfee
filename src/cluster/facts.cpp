// Names and values; packed as lengths and bytes, so that any text may be in them.
#include "trireme/cluster/facts.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "trireme/base/error.hpp"

namespace trireme::cluster {

void Facts::set(const std::string& name, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    set(name, std::string(text));
}

std::string Facts::text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second;
}

std::optional<double> Facts::number(const std::string& name) const {
    const std::string value = text(name);
    double result = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (value.empty() || failure != std::errc{} || end != value.data() + value.size())
        return std::nullopt;
    return result;
}

std::vector<std::string> Facts::members(const std::string& prefix) const {
    std::vector<std::string> result;
    const std::string start = prefix + ".";
    for (auto at = values_.lower_bound(start); at != values_.end() && at->first.starts_with(start); ++at) {
        const std::size_t end = at->first.rfind('.');
        if (end <= start.size())
            continue;
        const std::string member = at->first.substr(start.size(), end - start.size());
        if (std::ranges::find(result, member) == result.end())
            result.push_back(member);
    }
    return result;
}

std::string Facts::packed() const {
    std::string bytes;
    for (const auto& [name, value] : values_)
        for (const std::string& part : {name, value}) {
            const auto length = static_cast<std::uint64_t>(part.size());
            bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
            bytes += part;
        }
    return bytes;
}

Facts Facts::unpacked(const std::string& bytes) {
    Facts facts;
    std::size_t at = 0;
    const auto next = [&] {
        std::uint64_t length = 0;
        TRIREME_ASSERT(at + sizeof length <= bytes.size(), "damaged facts of a rank");
        std::memcpy(&length, bytes.data() + at, sizeof length);
        at += sizeof length;
        TRIREME_ASSERT(length <= bytes.size() - at, "damaged facts of a rank");
        std::string part = bytes.substr(at, length);
        at += length;
        return part;
    };
    while (at < bytes.size()) {
        std::string name = next();
        facts.values_[std::move(name)] = next();
    }
    return facts;
}

} // namespace trireme::cluster
