// --split: which documents are train, valid and test.
#include <charconv>
#include <cmath>

#include "trireme/base/error.hpp"
#include "trireme/data/dataset.hpp"

namespace trireme::data {

const char* name_of(Split split) {
    switch (split) {
    case Split::train:
        return "train";
    case Split::valid:
        return "valid";
    case Split::test:
        return "test";
    }
    return "?";
}

std::array<double, 3> parse_split(std::string_view text) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCategory::usage, concat("--split ", text, ": ", why),
                    {"needed: one to three numbers separated by commas, the shares of train, valid and test, "
                     "as in 969,30,1"});
    };
    const auto trimmed = [](std::string_view part) {
        while (part.starts_with(' '))
            part.remove_prefix(1);
        while (part.ends_with(' '))
            part.remove_suffix(1);
        return part;
    };
    std::array<double, 3> shares = {0, 0, 0};
    std::size_t count = 0;
    double sum = 0;
    for (std::string_view rest = text;;) {
        const std::size_t comma = rest.find(',');
        const std::string_view part = trimmed(rest.substr(0, comma));
        if (count == shares.size())
            refuse("more than three numbers");
        double share = 0;
        const auto [end, error] =
            std::from_chars(part.data(), part.data() + part.size(), share, std::chars_format::fixed);
        if (part.empty() || error != std::errc() || end != part.data() + part.size() ||
            !std::isfinite(share) || share < 0)
            refuse(concat("\"", part, "\" is not a number of 0 or more"));
        shares[count++] = share;
        sum += share;
        if (comma == std::string_view::npos)
            break;
        rest = rest.substr(comma + 1);
    }
    if (!(sum > 0) || !std::isfinite(sum))
        refuse("the numbers must have a positive sum");
    for (double& share : shares)
        share /= sum;
    return shares;
}

std::array<std::int64_t, 4> split_documents(const std::array<double, 3>& shares, std::int64_t documents) {
    // Example: 98,2,0 of 120 documents: train 0 to 118, valid 118 to 120, test none.
    std::array<std::int64_t, 4> bounds = {0, 0, 0, documents};
    double cumulative = 0;
    std::size_t last = 0;
    for (std::size_t part = 0; part < 3; ++part) {
        cumulative += shares[part];
        if (part < 2)
            bounds[part + 1] =
                std::min<std::int64_t>(documents, std::llrint(cumulative * static_cast<double>(documents)));
        if (shares[part] > 0)
            last = part;
    }
    // Sums such as 0.1 + 0.9 may fall short of 1: what comes after the last part with a share is empty.
    for (std::size_t part = last + 1; part < 3; ++part)
        bounds[part] = documents;
    return bounds;
}

} // namespace trireme::data
