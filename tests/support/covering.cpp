// The greedy covering array, and the search for allowed cases.
#include "support/covering.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "trireme/base/error.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::test {
namespace {

// All values of all factors in one row: the number of a value is first[factor] + value.
class Numbering {
  public:
    explicit Numbering(const std::vector<int>& sizes) {
        for (const int size : sizes) {
            first_.push_back(count_);
            count_ += static_cast<std::size_t>(size);
        }
    }
    std::size_t of(std::size_t factor, int value) const {
        return first_[factor] + static_cast<std::size_t>(value);
    }
    std::size_t count() const { return count_; }

  private:
    std::vector<std::size_t> first_;
    std::size_t count_ = 0;
};

// Numbers that look random and are the same each time.
class Draws {
  public:
    std::size_t below(std::size_t bound) {
        const PhiloxCounter words = philox4x32({next_++, 0, 0, 0}, {20, 26});
        return words[0] % bound;
    }
    template <class T>
    void shuffle(std::vector<T>& values) {
        for (std::size_t i = values.size(); i > 1; --i)
            std::swap(values[i - 1], values[below(i)]);
    }

  private:
    std::uint32_t next_ = 0;
};

class Search {
  public:
    explicit Search(const Space& space) : space_(space), order_(space.sizes.size()) {
        std::iota(order_.begin(), order_.end(), 0);
    }

    const Broken& broken(const Case& of) {
        const auto found = known_.find(of);
        return found != known_.end() ? found->second : known_[of] = space_.broken(of);
    }

    // Changes values that are not fixed until the case is allowed. A change that leaves fewer rules broken is
    // taken at once; else those that break other rules instead are followed, a few of them.
    bool mend(Case& of, const std::vector<bool>& fixed) {
        if (broken(of).empty())
            return true;
        std::set<Broken> seen{broken(of)};
        std::deque<Case> open{of};
        for (int followed = 0; !open.empty() && followed < kMostFollowed; ++followed) {
            const Case from = open.front();
            open.pop_front();
            if (const Case better = neighbour(from, fixed, seen, open); !better.empty()) {
                of = better;
                if (broken(of).empty())
                    return true;
                open = {of};
                followed = -1;
            }
        }
        return false;
    }

    // An allowed case with these values; empty if none is found from these.
    Case allowed_with(const std::vector<Choice>& choices, const std::vector<Case>& from) {
        std::vector<bool> fixed(space_.sizes.size());
        for (const Choice& choice : choices)
            fixed[static_cast<std::size_t>(choice.factor)] = true;
        for (Case start : from) {
            for (const Choice& choice : choices)
                start[static_cast<std::size_t>(choice.factor)] = choice.value;
            if (mend(start, fixed))
                return start;
        }
        return {};
    }

  private:
    static constexpr int kMostFollowed = 16;

    // The first change that breaks fewer rules, if there is one; those that break others are put into `open`.
    // Factors that have helped before are tried first.
    Case neighbour(const Case& of, const std::vector<bool>& fixed, std::set<Broken>& seen,
                   std::deque<Case>& open) {
        const std::size_t most = broken(of).size();
        for (std::size_t i = 0; i < order_.size(); ++i) {
            const std::size_t factor = order_[i];
            Case other = of;
            for (int value = 0; !fixed[factor] && value < space_.sizes[factor]; ++value) {
                other[factor] = value;
                const Broken& rules = broken(other);
                if (rules.size() < most) {
                    const auto at = order_.begin() + static_cast<std::ptrdiff_t>(i);
                    std::rotate(order_.begin(), at, at + 1);
                    return other;
                }
                if (rules.size() == most && seen.insert(rules).second)
                    open.push_back(other);
            }
        }
        return {};
    }

    const Space& space_;
    std::map<Case, Broken> known_;
    std::vector<std::size_t> order_; // of factors
};

// Which sets of `kStrength` values no case has met yet.
template <int kStrength>
class Unmet {
  public:
    explicit Unmet(const Space& space)
        : numbering_(space.sizes), met_(power(numbering_.count())), factors_(space.sizes.size()) {}

    void meet(const Case& of) {
        visit(of, [&](std::size_t place) { met_[place] = true; });
    }
    // Sets of the case that were not met, or of `factor` with those of `others`.
    int gain(const Case& of) const {
        int sum = 0;
        visit(of, [&](std::size_t place) { sum += !met_[place]; });
        return sum;
    }
    int gain(const Case& of, std::size_t factor, int value, const std::vector<std::size_t>& others) const {
        const std::size_t own = numbering_.of(factor, value);
        int sum = 0;
        for (std::size_t i = 0; i < others.size(); ++i) {
            const std::size_t a = numbering_.of(others[i], of[others[i]]);
            if constexpr (kStrength == 2)
                sum += !met_[place({own, a})];
            else
                for (std::size_t j = 0; j < i; ++j)
                    sum += !met_[place({own, a, numbering_.of(others[j], of[others[j]])})];
        }
        return sum;
    }
    bool met(const Pair& pair) const requires(kStrength == 2) {
        return met_[place({numbering_.of(static_cast<std::size_t>(pair.first.factor), pair.first.value),
                           numbering_.of(static_cast<std::size_t>(pair.second.factor), pair.second.value)})];
    }
    std::size_t count_met() const { return static_cast<std::size_t>(std::ranges::count(met_, true)); }

  private:
    static std::size_t power(std::size_t base) { return kStrength == 2 ? base * base : base * base * base; }
    std::size_t place(std::array<std::size_t, kStrength> numbers) const {
        std::ranges::sort(numbers);
        std::size_t result = 0;
        for (const std::size_t number : numbers)
            result = result * numbering_.count() + number;
        return result;
    }
    template <class Body>
    void visit(const Case& of, Body body) const {
        for (std::size_t a = 0; a < factors_; ++a)
            for (std::size_t b = a + 1; b < factors_; ++b) {
                const std::size_t first = numbering_.of(a, of[a]), second = numbering_.of(b, of[b]);
                if constexpr (kStrength == 2)
                    body(place({first, second}));
                else
                    for (std::size_t c = b + 1; c < factors_; ++c)
                        body(place({first, second, numbering_.of(c, of[c])}));
            }
    }

    Numbering numbering_;
    std::vector<bool> met_;
    std::size_t factors_;
};

// Every pair as it was found: some allowed case holds it, or none does.
class Judged {
  public:
    Judged(const Space& space, Search& search) : allowed_(space) {
        const auto factors = static_cast<int>(space.sizes.size());
        witnesses_.push_back(space.defaults());
        allowed_.meet(space.defaults());
        for (int a = 0; a < factors; ++a)
            for (int b = a + 1; b < factors; ++b)
                for (int x = 0; x < space.sizes[static_cast<std::size_t>(a)]; ++x)
                    for (int y = 0; y < space.sizes[static_cast<std::size_t>(b)]; ++y) {
                        const Pair pair{{a, x}, {b, y}};
                        pairs_.push_back(pair);
                        if (allowed_.met(pair))
                            continue;
                        const Case found = search.allowed_with({pair.first, pair.second},
                                                               {space.defaults(), witnesses_.back()});
                        if (found.empty()) {
                            refused_.push_back(pair);
                        } else {
                            allowed_.meet(found);
                            witnesses_.push_back(found);
                        }
                    }
    }

    const std::vector<Pair>& all() const { return pairs_; }
    const std::vector<Pair>& refused() const { return refused_; }
    bool allowed(const Choice& a, const Choice& b) const {
        return allowed_.met(a.factor < b.factor ? Pair{a, b} : Pair{b, a});
    }
    // Holds the pair, which is allowed.
    const Case& witness(const Pair& pair) const {
        return *std::ranges::find_if(witnesses_, [&](const Case& of) {
            return of[static_cast<std::size_t>(pair.first.factor)] == pair.first.value &&
                   of[static_cast<std::size_t>(pair.second.factor)] == pair.second.value;
        });
    }

  private:
    Unmet<2> allowed_; // pairs that a witness has met
    std::vector<Pair> pairs_, refused_;
    std::vector<Case> witnesses_; // allowed cases
};

// Grows cases: factors in random order take the value that meets most with those before.
class Grower {
  public:
    Grower(const Space& space, const Judged& judged) : space_(space), judged_(judged) {}

    template <int kStrength>
    Case grow(const Unmet<kStrength>& unmet, const std::vector<Choice>& choices) {
        Case result = space_.defaults();
        std::vector<std::size_t> done, open;
        for (const Choice& choice : choices) {
            done.push_back(static_cast<std::size_t>(choice.factor));
            result[done.back()] = choice.value;
        }
        for (std::size_t factor = 0; factor < result.size(); ++factor)
            if (std::ranges::find(done, factor) == done.end())
                open.push_back(factor);
        draws_.shuffle(open);
        for (const std::size_t factor : open) {
            result[factor] = best_value(unmet, result, factor, done);
            done.push_back(factor);
        }
        return result;
    }

  private:
    template <int kStrength>
    int best_value(const Unmet<kStrength>& unmet, const Case& of, std::size_t factor,
                   const std::vector<std::size_t>& done) {
        const int size = space_.sizes[factor];
        const auto start = static_cast<int>(draws_.below(static_cast<std::size_t>(size)));
        int best = start, most = -1;
        for (int i = 0; i < size; ++i) {
            const int value = (start + i) % size;
            const bool goes = std::ranges::all_of(done, [&](std::size_t other) {
                return judged_.allowed({static_cast<int>(other), of[other]},
                                       {static_cast<int>(factor), value});
            });
            if (const int gain = goes ? unmet.gain(of, factor, value, done) : -1; gain > most) {
                most = gain;
                best = value;
            }
        }
        return best;
    }

    const Space& space_;
    const Judged& judged_;
    Draws draws_;
};

constexpr std::size_t kCandidates = 12; // for each case

// The one of these that meets most of those that are allowed, mended where they break rules of more than two
// values; empty if none meets anything.
template <int kStrength>
Case choose(std::vector<Case> candidates, Search& search, const Unmet<kStrength>& unmet) {
    std::ranges::stable_sort(candidates, std::greater{}, [&](const Case& of) { return unmet.gain(of); });
    for (const Case& of : candidates)
        if (const Case made = search.allowed_with({}, {of}); !made.empty() && unmet.gain(made) > 0)
            return made;
    return {};
}

} // namespace

Cover make_cover(const Space& space, std::size_t least) {
    TRIREME_ASSERT(space.broken(space.defaults()).empty(), "the default values do not go together");
    Search search(space);
    const Judged judged(space, search);
    Grower grower(space, judged);
    Unmet<2> pairs(space);
    Unmet<3> triples(space);
    Cover cover{.cases = {}, .pairs = judged.all().size(), .refused = judged.refused()};
    std::vector<Pair> open = judged.all();
    std::erase_if(open, [&](const Pair& pair) { return !judged.allowed(pair.first, pair.second); });
    const auto keep = [&](const Case& made) {
        cover.cases.push_back(made);
        pairs.meet(made);
        triples.meet(made);
        std::erase_if(open, [&](const Pair& pair) { return pairs.met(pair); });
    };
    while (!open.empty()) {
        std::vector<Case> candidates;
        for (std::size_t i = 0; i < kCandidates; ++i) { // from pairs all over the row
            const Pair& pair = open[i * open.size() / kCandidates];
            candidates.push_back(grower.grow(pairs, {pair.first, pair.second}));
        }
        const Case made = choose(std::move(candidates), search, pairs);
        keep(made.empty() ? judged.witness(open.front()) : made);
    }
    for (std::size_t idle = 0; cover.cases.size() < least && idle < kCandidates;) {
        std::vector<Case> candidates;
        for (std::size_t i = 0; i < kCandidates; ++i)
            candidates.push_back(grower.grow(triples, {}));
        Case made = choose(candidates, search, triples);
        if (made.empty()) // no new triple: at least another case
            made = search.allowed_with({}, candidates);
        if (made.empty() || std::ranges::find(cover.cases, made) != cover.cases.end())
            ++idle; // a small space is soon exhausted
        else
            keep(made);
    }
    return cover;
}

Case allowed_case_with(const Space& space, const std::vector<Choice>& fixed) {
    return Search(space).allowed_with(fixed, {space.defaults()});
}

std::size_t pairs_met(const Space& space, const std::vector<Case>& cases) {
    Unmet<2> pairs(space);
    for (const Case& of : cases)
        pairs.meet(of);
    return pairs.count_met();
}

} // namespace trireme::test
