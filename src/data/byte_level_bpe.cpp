// Byte-level BPE: pieces of the pre-tokenizer, each through the BPE unless the thread has met it before.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "data/bpe_vocabulary.hpp"
#include "data/case_blind_pre_tokenizer.hpp"
#include "data/normalize.hpp"
#include "data/piece_cache.hpp"
#include "data/pre_tokenizer.hpp"
#include "data/special_tokens.hpp"
#include "trireme/base/error.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {
namespace {

template <class PreTokenizer>
class ByteLevelBpe final : public Tokenizer {
  public:
    ByteLevelBpe(BpeVocabulary vocabulary, SpecialTokens special)
        : bytes_of_id_(std::move(vocabulary.bytes_of_id)), has_token_(std::move(vocabulary.has_token)),
          end_of_text_(vocabulary.end_of_text), fingerprint_(vocabulary.fingerprint),
          normalization_(vocabulary.normalization),
          encoder_(vocabulary.byte_ids, std::move(vocabulary.merges)) {
        if (special == SpecialTokens::have_ids) {
            special_ = SpecialTokenFinder(std::move(vocabulary.special));
            fingerprint_ = hash_bytes("special tokens have ids", fingerprint_);
        }
        if (vocabulary.whole_pieces == WholePieces::go_first)
            for (std::size_t id = 0; id < bytes_of_id_.size(); ++id)
                if (has_token_[id])
                    whole_pieces_.emplace(bytes_of_id_[id], static_cast<std::int32_t>(id));
        for (const auto& [spelling, id] : vocabulary.special)
            whole_pieces_.erase(spelling); // text, unless it is a special token
    }

    std::unique_ptr<TokenizerScratch> make_scratch() const override {
        return std::make_unique<Scratch>(this);
    }

    using Tokenizer::encode;
    void encode(std::string_view text, TokenizerScratch& any_scratch, std::vector<std::int32_t>& ids,
                const IdSink& sink) const override {
        Scratch* scratch = dynamic_cast<Scratch*>(&any_scratch);
        TRIREME_ASSERT(scratch != nullptr && scratch->owner == this, "the scratch of another tokenizer");
        special_.split(
            text, [&](std::string_view between) { encode_text(between, *scratch, ids, sink); },
            [&](std::int32_t id) { ids.push_back(id); });
    }

    std::string decode(std::span<const std::int32_t> ids) const override {
        std::string text;
        for (const std::int32_t id : ids) {
            if (id < 0 || id >= vocab_size() || !has_token_[static_cast<std::size_t>(id)])
                throw Error(ErrorCategory::data, concat("token id ", id, " is not in the vocabulary of ",
                                                        vocab_size(), " tokens"));
            text += bytes_of_id_[static_cast<std::size_t>(id)];
        }
        return text;
    }

    std::int64_t vocab_size() const override { return static_cast<std::int64_t>(bytes_of_id_.size()); }
    std::int32_t end_of_document() const override { return end_of_text_; }

    std::uint64_t fingerprint() const override { return fingerprint_; }

  private:
    static constexpr std::size_t kMostIdsKept = std::size_t{1} << 18;

    struct Scratch final : TokenizerScratch {
        explicit Scratch(const ByteLevelBpe* its_owner) : owner(its_owner) {}
        const ByteLevelBpe* owner;
        PieceCache cache;
        WidePieceCache wide_cache;
        BpeWorkspace workspace;
        std::string normal;
        void shrink() override {
            workspace = BpeWorkspace();
            std::string().swap(normal);
        }
    };

    void encode_text(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& ids,
                     const IdSink& sink) const {
        if (normalization_ == Normalization::nfc && !is_surely_nfc(text)) {
            normalize_nfc(text, scratch.normal);
            text = scratch.normal;
        }
        // Ids gather here first: four are written at a time, whatever their number.
        std::array<std::int32_t, 2048> gathered;
        std::size_t count = 0;
        const auto hand_over = [&] {
            ids.insert(ids.end(), gathered.begin(), gathered.begin() + static_cast<std::ptrdiff_t>(count));
            count = 0;
            if (sink && ids.size() >= kMostIdsKept) {
                sink(ids);
                ids.clear();
            }
        };
        const char* const end = text.data() + text.size();
        PreTokenizer pieces(text);
        for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
            if (count + PieceCache::kMostIds > gathered.size())
                hand_over();
            if (piece.size() > PieceCache::kLongestPiece) {
                hand_over();
                encode_rare(piece, scratch, ids, sink);
                continue;
            }
            const PieceCache::Key key =
                PieceCache::key_of(piece, static_cast<std::size_t>(end - piece.data()));
            if (const PieceCache::Entry* known = scratch.cache.find(key)) {
                std::copy_n(known->ids.begin(), PieceCache::kMostIds,
                            gathered.begin() + static_cast<std::ptrdiff_t>(count));
                count += known->count();
                continue;
            }
            hand_over();
            const std::size_t before = ids.size();
            encode_rare(piece, scratch, ids, sink);
            if (ids.size() - before > PieceCache::kMostIds)
                continue;
            PieceCache::Entry entry = {key, {-1, -1, -1, -1}};
            std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids.begin());
            scratch.cache.add(entry);
        }
        hand_over();
    }

    // A piece that is not in the first table.
    void encode_rare(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& ids,
                     const IdSink& sink) const {
        if (piece.size() > WidePieceCache::kLongestPiece)
            return merge(piece, scratch, ids, sink);
        const WidePieceCache::Key key = WidePieceCache::key_of(piece);
        WidePieceCache::Entry& entry = scratch.wide_cache.place_of(key);
        if (entry.key == key) {
            ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
            return;
        }
        const std::size_t before = ids.size();
        merge(piece, scratch, ids, sink);
        const std::size_t count = ids.size() - before;
        const bool fits_the_first =
            piece.size() <= PieceCache::kLongestPiece && count <= PieceCache::kMostIds;
        if (fits_the_first || count > WidePieceCache::kMostIds)
            return;
        entry.key = key;
        entry.count = static_cast<std::uint32_t>(count);
        std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(before), count, entry.ids.begin());
    }

    void merge(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& ids,
               const IdSink& sink) const {
        if (!whole_pieces_.empty())
            if (const auto found = whole_pieces_.find(piece); found != whole_pieces_.end()) {
                ids.push_back(found->second);
                return;
            }
        encoder_.encode(piece, scratch.workspace, ids, sink);
    }

    std::vector<std::string> bytes_of_id_;
    std::vector<bool> has_token_;
    std::int32_t end_of_text_;
    std::uint64_t fingerprint_;
    Normalization normalization_;
    BytePairEncoder encoder_;
    SpecialTokenFinder special_;                                      // empty: they are text
    std::unordered_map<std::string_view, std::int32_t> whole_pieces_; // empty: all pieces are merged
};

} // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    const std::unique_ptr<TokenizerScratch> scratch = make_scratch();
    encode(text, *scratch, ids);
    return ids;
}

std::unique_ptr<Tokenizer> make_byte_level_bpe(BpeVocabulary vocabulary, SpecialTokens special) {
    switch (vocabulary.pieces) {
    case PieceRule::gpt2:
        return std::make_unique<ByteLevelBpe<Gpt2PreTokenizer>>(std::move(vocabulary), special);
    case PieceRule::llama3:
        return std::make_unique<ByteLevelBpe<CaseBlindPreTokenizer<3>>>(std::move(vocabulary), special);
    case PieceRule::qwen2:
        return std::make_unique<ByteLevelBpe<CaseBlindPreTokenizer<1>>>(std::move(vocabulary), special);
    }
    TRIREME_ASSERT(false, "an unknown rule of pieces");
    return nullptr;
}

std::unique_ptr<Tokenizer> load_gpt2_bpe(const std::filesystem::path& vocab_json,
                                         const std::filesystem::path& merges_txt, SpecialTokens special) {
    return make_byte_level_bpe(read_gpt2_files(vocab_json, merges_txt), special);
}

} // namespace trireme::data
