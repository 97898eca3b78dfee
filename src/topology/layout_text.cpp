// Reads Megatron-LM's text of a pipeline layout.
#include <algorithm>
#include <charconv>
#include <optional>

#include "trireme/base/error.hpp"
#include "trireme/topology/placement.hpp"

namespace trireme::topology {
namespace {

// The text with its repetitions written out; nothing if it cannot be read.
class Reader {
  public:
    explicit Reader(const std::string& text) {
        std::ranges::copy_if(text, std::back_inserter(text_),
                             [](char letter) { return letter != ',' && letter != ' '; });
    }

    std::optional<std::string> read() {
        std::optional<std::string> all = sequence();
        return all && at_ == text_.size() ? all : std::nullopt;
    }
    const std::string& rest() const { return text_; }
    std::size_t at() const { return at_; }

  private:
    static constexpr std::size_t kLongest = 1 << 16; // letters
    static constexpr int kDeepest = 16;              // parentheses in each other

    std::optional<std::string> sequence() {
        std::string all;
        while (at_ < text_.size() && text_[at_] != ')') {
            std::optional<std::string> one = item();
            if (!one || all.size() + one->size() > kLongest)
                return std::nullopt;
            all += *one;
        }
        return all;
    }

    std::optional<std::string> item() {
        std::optional<std::string> one;
        if (text_[at_] == '(') {
            if (++depth_ > kDeepest)
                return std::nullopt;
            ++at_;
            one = sequence();
            if (!one || one->empty() || at_ == text_.size())
                return std::nullopt;
            ++at_; // the parenthesis that closes
            --depth_;
        } else if (std::string("EtL|").find(text_[at_]) != std::string::npos) {
            one = std::string(1, text_[at_++]);
        } else {
            return std::nullopt;
        }
        if (at_ == text_.size() || text_[at_] != '*')
            return one;
        std::size_t times = 0;
        const char *first = text_.data() + at_ + 1, *last = text_.data() + text_.size();
        const auto [end, failure] = std::from_chars(first, last, times);
        if (failure != std::errc{} || times == 0 || times > kLongest || one->size() > kLongest / times)
            return std::nullopt;
        at_ = static_cast<std::size_t>(end - text_.data());
        std::string repeated;
        for (std::size_t i = 0; i < times; ++i)
            repeated += *one;
        return repeated;
    }

    std::string text_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

} // namespace

LayoutText read_layout(const std::string& text) {
    Reader reader(text);
    const std::optional<std::string> all = reader.read();
    if (!all) {
        const std::string rest = reader.rest().substr(std::min(reader.at(), reader.rest().size()));
        if (rest.starts_with("m"))
            return {{}, "there are no layers for multi-token prediction (m)"};
        return {{},
                concat("'", text, "' cannot be read", rest.empty() ? "" : concat(" from '", rest, "' on"))};
    }
    if (std::ranges::count(*all, 'E') != 1 || all->front() != 'E')
        return {{}, concat("'", text, "' does not begin with the one embedding (E)")};
    if (std::ranges::count(*all, 'L') != 1 || all->back() != 'L')
        return {{}, concat("'", text, "' does not end with the one head with its loss (L)")};
    LayoutText result;
    result.pieces.push_back(0);
    for (const char letter : *all) {
        if (letter == '|')
            result.pieces.push_back(0);
        result.pieces.back() += letter == 't';
    }
    return result;
}

} // namespace trireme::topology
