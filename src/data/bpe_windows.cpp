// A piece of any length in memory that does not grow with it. Exact, whatever the merges:
//
// (1) If BPE(x y) has a boundary between x and y, it is BPE(x) followed by BPE(y): no merge crossed the
// boundary,
//     so every step was the lowest rank, the leftmost of equals, of x alone or of y alone.
// (2) If BPE(x) ends with the token s, BPE(y) begins with the token u and BPE(s u) is s, u, then BPE(x y) is
//     BPE(x) followed by BPE(y). Look at the first merge that crosses, of p at the end of s and q at the
//     start of u. Until then s and u have been built by merges of their own, in the order in which their
//     lowest ranks take turns, and BPE(s u) builds them in the same order. It comes to the same p and q, with
//     no lower rank left in s or u (and no equal one in s), so it would merge them, too. It does not.
//
// So with the tokens of a beginning of the piece known, a window from the begin of one of them, t, on is
// encoded. If its first token is t again, then by (1) t's predecessor and t are BPE of their own bytes, and
// by (2) the tokens before t followed by those of the window are BPE of all that both cover. If it is not,
// the window begins some tokens earlier and reaches farther; at the begin of the piece nothing need be
// shared. Example with the tokens ab, abab and windows of 7 bytes: "abababa" gives abab ab a; the next window
// begins at "ab".
#include <algorithm>
#include <utility>

#include "data/bpe.hpp"
#include "trireme/base/error.hpp"

namespace trireme::data {

// With a sink, this many of the last tokens stay for the next window to begin at.
constexpr std::size_t kTokensThatStay = std::size_t{1} << 18;

void BytePairEncoder::encode_by_windows(std::string_view piece, BpeWorkspace& workspace,
                                        std::vector<std::int32_t>& ids, const IdSink& sink,
                                        std::size_t window_bytes, std::size_t shared_tokens) const {
    std::size_t first = ids.size(); // of this piece in ids
    bool from_the_start = true;     // ids[first] is the piece's first token: none has gone to the sink
    std::size_t covered = 0;        // bytes of the piece that ids are the tokens of
    std::size_t wanted = shared_tokens;
    while (covered < piece.size()) {
        const std::size_t known = ids.size() - first;
        const std::size_t shared = std::min(wanted, known);
        std::size_t begin = covered;
        for (std::size_t index = ids.size() - shared; index < ids.size(); ++index)
            begin -= bytes_of(ids[index]);
        const std::size_t size =
            std::min(std::max(window_bytes, 2 * (covered - begin)), piece.size() - begin);
        std::vector<std::int32_t>& window = workspace.window;
        window.clear();
        encode_by_lists(piece.substr(begin, size), workspace, window);
        const bool at_start = from_the_start && shared == known;
        if (!at_start && window.front() != ids[ids.size() - shared]) {
            if (shared == known)
                throw Error(ErrorCategory::data,
                            concat("a word of ", piece.size(), " bytes whose tokens depend on what follows ",
                                   known, " tokens later"));
            wanted = 2 * shared;
            continue;
        }
        ids.resize(ids.size() - shared);
        ids.insert(ids.end(), window.begin(), window.end());
        covered = begin + size;
        wanted = shared_tokens;
        if (sink && ids.size() - first > 2 * kTokensThatStay) {
            const std::size_t leave = ids.size() - kTokensThatStay;
            sink(std::span(ids).first(leave));
            ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(leave));
            first = 0;
            from_the_start = false;
        }
    }
}

} // namespace trireme::data
