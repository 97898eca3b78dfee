// A table of the short pieces that a thread has met before, with their ids. Text repeats itself, so it
// answers for nearly every piece; a set of two entries fills a cache line, and a newcomer replaces the older
// of the two.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trireme::data {

static_assert(std::endian::native == std::endian::little, "keys of pieces are made by copying bytes");

class PieceCache {
  public:
    static constexpr std::size_t kLongestPiece = 15;
    static constexpr std::size_t kMostIds = 4;

    struct Key {
        std::uint64_t low = 0, high = 0; // the bytes, and in the last of high their number; 0: an empty entry
        bool operator==(const Key& other) const { return ((low ^ other.low) | (high ^ other.high)) == 0; }
    };
    struct Entry {
        Key key;
        std::array<std::int32_t, kMostIds> ids; // unused ones are -1
        std::size_t count() const {
            std::size_t number = 1;
            for (std::size_t index = 1; index < kMostIds; ++index)
                number += ids[index] >= 0 ? 1 : 0;
            return number;
        }
    };

    // A piece of at most kLongestPiece bytes; `readable` bytes may be read from its first on.
    static Key key_of(std::string_view piece, std::size_t readable) {
        Key key;
        const std::size_t size = piece.size();
        if (readable >= 16) {
            std::memcpy(&key.low, piece.data(), 8);
            std::memcpy(&key.high, piece.data() + 8, 8);
            key.low &= size >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * size)) - 1;
            key.high &= size > 8 ? (std::uint64_t{1} << (8 * (size - 8))) - 1 : 0;
        } else {
            std::array<char, 16> bytes = {};
            std::memcpy(bytes.data(), piece.data(), size);
            std::memcpy(&key, bytes.data(), 16);
        }
        key.high |= std::uint64_t{size} << 56;
        return key;
    }

    const Entry* find(const Key& key) const {
        const Set& set = sets_[set_of(key)];
        if (set.newer.key == key)
            return &set.newer;
        return set.older.key == key ? &set.older : nullptr;
    }
    void add(const Entry& entry) {
        Set& set = sets_[set_of(entry.key)];
        set.older = set.newer;
        set.newer = entry;
    }

  private:
    struct alignas(64) Set {
        Entry newer, older;
    };
    static constexpr int kSetsLog2 = 16; // 4 MiB
    static std::size_t set_of(const Key& key) {
        std::uint64_t hash = (key.low ^ std::rotl(key.high, 29)) * 0x9E3779B97F4A7C15ull;
        hash = (hash ^ (hash >> 32) ^ key.high) * 0xD6E8FEB86659FD93ull;
        return hash >> (64 - kSetsLog2);
    }

    std::vector<Set> sets_ = std::vector<Set>(std::size_t{1} << kSetsLog2);
};

// The same for pieces that are longer or have more ids, which are few: one entry for each place.
class WidePieceCache {
  public:
    static constexpr std::size_t kLongestPiece = 31;
    static constexpr std::size_t kMostIds = 23;
    struct Key { // the bytes, and in the last their number
        std::array<std::uint64_t, 4> words = {};
        bool operator==(const Key& other) const { // inlined, where that of the array calls memcmp
            std::uint64_t different = 0;
            for (std::size_t word = 0; word < words.size(); ++word)
                different |= words[word] ^ other.words[word];
            return different == 0;
        }
    };

    struct alignas(128) Entry {
        Key key;
        std::uint32_t count = 0;
        std::array<std::int32_t, kMostIds> ids;
    };

    static Key key_of(std::string_view piece) {
        std::array<char, 32> bytes = {};
        std::memcpy(bytes.data(), piece.data(), piece.size());
        bytes[31] = static_cast<char>(piece.size());
        return std::bit_cast<Key>(bytes);
    }
    Entry& place_of(const Key& key) {
        std::uint64_t hash = 0;
        for (const std::uint64_t word : key.words)
            hash = (std::rotl(hash, 23) ^ word) * 0x9E3779B97F4A7C15ull;
        return entries_[(hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93ull >> (64 - kPlacesLog2)];
    }

  private:
    static constexpr int kPlacesLog2 = 12; // 512 KiB
    std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << kPlacesLog2);
};

} // namespace trireme::data
