// Finds special tokens that are spelt out in text: the leftmost first, and the longest of those that begin at
// one place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::data {

class SpecialTokenFinder {
  public:
    SpecialTokenFinder() = default;
    explicit SpecialTokenFinder(std::vector<std::pair<std::string, std::int32_t>> tokens)
        : tokens_(std::move(tokens)) {
        std::stable_sort(tokens_.begin(), tokens_.end(),
                         [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
        for (const auto& [spelling, id] : tokens_)
            begins_[static_cast<unsigned char>(spelling.front())] = true;
    }

    // Calls use_text for what stands between the tokens, and use_token for them, in order.
    template <class UseText, class UseToken>
    void split(std::string_view text, UseText use_text, UseToken use_token) const {
        if (tokens_.empty())
            return use_text(text);
        std::size_t begin = 0;
        for (std::size_t at = 0; at < text.size();) {
            const auto* found =
                begins_[static_cast<unsigned char>(text[at])] ? token_at(text.substr(at)) : nullptr;
            if (found == nullptr) {
                ++at;
                continue;
            }
            if (at > begin)
                use_text(text.substr(begin, at - begin));
            use_token(found->second);
            begin = at += found->first.size();
        }
        if (begin < text.size())
            use_text(text.substr(begin));
    }

  private:
    const std::pair<std::string, std::int32_t>* token_at(std::string_view text) const {
        for (const auto& token : tokens_)
            if (text.starts_with(token.first))
                return &token;
        return nullptr;
    }

    std::vector<std::pair<std::string, std::int32_t>> tokens_; // the longest first
    std::array<bool, 256> begins_{};                           // by first byte
};

} // namespace trireme::data
